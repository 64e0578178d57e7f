"""Pages of the audit stream as rows: one for each record, with the record as it was written."""

from __future__ import annotations

import msgspec
import pyarrow as pa

from authz import Decision, Request
from authz.request import Attributes
from bus.audit import Page, read_record
from spark_eval.schemas import AUDITED

Row = dict[str, object]


def page_batch(page: Page) -> pa.RecordBatch:
    """The records of a page; of one that cannot be read, a row without a record."""
    rows = [_row(page, place, record) for place, record in enumerate(page.records)]
    return pa.RecordBatch.from_pylist(
        rows or [{"page": page.number, "place": 0, "writer": page.writer}], AUDITED
    )


def _row(page: Page, place: int, encoded: bytes) -> Row:
    row: Row = {"page": page.number, "place": place, "writer": page.writer, "record": encoded}
    record = read_record(encoded)
    if record is None:
        return row
    row |= {"sequence": record.sequence, "time": int(record.at * 1e6), "dropped": record.dropped}
    if record.request is not None and record.decision is not None:
        row |= _request(record.request) | _decision(record.decision)
    return row


def _request(request: Request) -> Row:
    row: Row = {"context": _json(request.context)}
    for kind, entity in (
        ("subject", request.subject),
        ("object", request.object),
        ("action", request.action),
    ):
        row |= {kind: entity.id, f"{kind}_attributes": _json(entity.attributes)}
    return row


def _decision(decision: Decision) -> Row:
    inferred = decision.inferred
    return {
        "effect": decision.effect,
        "reason": str(decision.reason),
        "policies": list(decision.policies),
        "epoch": decision.epoch,
        "inferred": None if inferred is None else inferred.method,
    }


def _json(attributes: Attributes) -> str | None:
    return msgspec.json.encode(attributes).decode() if attributes else None
