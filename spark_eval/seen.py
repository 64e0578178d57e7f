"""Requests that were asked, decided by two sets of policies: what runs inside Spark's tasks.

Each is decided by the engine itself, so attributes and context count as they do in a PDP. What entities are known to be
counts more than what the asker claimed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import msgspec
import pyarrow as pa

from authz import Entity, Request
from authz.request import Attributes
from pdp.bundle import Bundle
from pdp.engine import Engine
from pdp.policy_set import PolicySet
from spark_eval.schemas import SEEN

Known = Mapping[str, Attributes]
"""What is known of entities, by name."""


@dataclass(frozen=True, slots=True)
class SeenWork:
    """What a task does: decide each request twice."""

    before: bytes
    """Both sets of policies as packed bundles, since an engine cannot travel."""
    after: bytes
    subjects: Known
    objects: Known

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        engines = engine_of(self.before), engine_of(self.after)
        for batch in batches:
            yield pa.RecordBatch.from_pylist([self._decide(row, *engines) for row in batch.to_pylist()], SEEN)

    def _decide(self, row: Mapping[str, object], before: Engine, after: Engine) -> dict[str, object]:
        request = self.request(row)
        old, new = before.evaluate(request), after.evaluate(request)
        return {
            "subject": request.subject.id,
            "object": request.object.id,
            "action": request.action.id,
            "roles": _roles(request.subject.attributes),
            "count": row["count"],
            "before": old.effect,
            "after": new.effect,
            "policies_before": list(old.policies),
            "policies_after": list(new.policies),
        }

    def request(self, row: Mapping[str, object]) -> Request:
        """The request in a row, with what is known of its entities."""
        return Request(
            _entity(row, "subject", self.subjects),
            _entity(row, "object", self.objects),
            _entity(row, "action", {}),
            _attributes(row["context"]),
        )


@lru_cache(maxsize=4)
def engine_of(packed: bytes) -> Engine:
    """The engine of a packed bundle; a process makes it once."""
    return PolicySet.read(Bundle.unpack(packed)).engine()


def _entity(row: Mapping[str, object], kind: str, known: Known) -> Entity:
    name = str(row[kind])
    return Entity(name, {**_attributes(row[f"{kind}_attributes"]), **known.get(name, {})})


def _attributes(text: object) -> Attributes:
    return msgspec.json.decode(text, type=dict[str, object]) if isinstance(text, str) else {}


def _roles(attributes: Attributes) -> list[str]:
    roles = attributes.get("roles")
    return [role for role in roles if isinstance(role, str)] if isinstance(roles, list) else []
