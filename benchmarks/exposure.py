"""What it takes to find out who could have read an attribute of a million events."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from uuid import uuid4

from authfabric.exposure import AccessFinder, Client, Counts, Evidence, Period, Question, View, count
from authz import Identity
from benchmarks.harness import at_least, main
from benchmarks.processes.history_publisher import ATTRIBUTES, fill, values
from pdp.bundle import Bundle, File
from pubsub_core.history import EventCipher, HistoryStore, Span
from pubsub_core.trust import Credential
from pubsub_core.types import Catalogue, EventType, SignedType

PROMISES = {"exposure_agreement": at_least(1)}

STORED = 1_000_000
SAMPLE = 2_000
"""Events that are read by brute force first."""
CLIENTS = 4
QUARTER = STORED // 4
"""Events under each of four releases: all is open, then to each its own drug, then nothing, then that again."""
CLEAR = 250
"""The amount from which on the rules of the last release leave patients as they are."""
_MAY = "rules: {}, targets: {action_id: [subscribe, replay], resource_id: /types/bench.Prescribe}"
OPEN = File("open.yaml", f"- {{uid: open, effect: allow, {_MAY}}}\n")
OWN = File("own.yaml", f"- {{uid: own, effect: allow, {_MAY}, obligations: [{{filter: drug = $drug}}]}}\n")
NOBODY = File("nobody.yaml", f"- {{uid: nobody, effect: deny, {_MAY}}}\n")
RULES = File(
    "some.rules",
    f"""
live: ALLOW SUBSCRIPTION TO bench.Prescribe
past: ALLOW REPLAY OF bench.Prescribe
blur: TRANSFORM EVENT bench.Prescribe TO bench.Prescribe ON notify EXECUTE null(patient) WHERE amount < {CLEAR}
""",
)


def run() -> dict[str, float]:
    """What it takes to find out who could have read an attribute of a million events."""
    with TemporaryDirectory() as folder:
        return asyncio.run(_run(Path(folder)))


async def _run(folder: Path) -> dict[str, float]:
    owner = Identity.generate()
    kind = EventType.new("bench.Prescribe", owner.public, ATTRIBUTES, uuid4)
    url, secret = f"sqlite:///{folder / 'past.db'}", secrets.token_bytes(32)
    fill(url, secret, "past", kind, STORED, 0.0)
    with HistoryStore(url, EventCipher(secret)) as store:
        samples = [range(edge - SAMPLE // 2, edge + SAMPLE // 2) for edge in range(QUARTER, STORED, QUARTER)]
        agree = [await _agrees(store, kind, owner, sample) for sample in samples]
        start = perf_counter()
        by_database = await _count(store, kind, owner, "drug", OWN, range(STORED))
        middle = perf_counter()
        by_reading = await _count(store, kind, owner, "patient", RULES, range(STORED))
        end = perf_counter()
    assert (by_database.opened, by_reading.opened) == (0, STORED)
    return {
        "exposure_agreement": float(all(agree)),
        "exposure_events": by_reading.events,
        "exposure_clients": CLIENTS,
        "exposure_sql_seconds": middle - start,
        "exposure_read_seconds": end - middle,
    }


async def _agrees(store: HistoryStore, kind: EventType, owner: Identity, sample: range) -> bool:
    """Whether what is counted of some events is what comes of looking at each by itself."""
    by_database = await _count(store, kind, owner, "drug", OWN, sample)
    by_reading = await _count(store, kind, owner, "patient", RULES, sample)
    return all(
        (found.tallies[f"c{number}"].full, found.tallies[f"c{number}"].live)
        == _brute(f"drug{number}", sample, ruled)
        for found, ruled in ((by_database, False), (by_reading, True))
        for number in range(CLIENTS)
    )


def _brute(drug: str, sample: range, ruled: bool) -> tuple[int, int]:
    """How many of these events somebody could read who may see one drug, and how many as they were published."""
    full = live = 0
    for number in sample:
        each, quarter = values(number), number // QUARTER
        own, clear = each["drug"] == drug, not ruled or int(str(each["amount"])) >= CLEAR
        full += quarter == 0 or (own and (quarter == 1 or clear))
        live += quarter == 0 or (own and (quarter == 1 or (quarter == 3 and clear)))
    return full, live


async def _count(
    store: HistoryStore, kind: EventType, owner: Identity, attribute: str, last: File, numbers: range
) -> Counts:
    catalogue = Catalogue()
    catalogue.accept(SignedType.sign(kind, owner), 0.0)
    bundles = [Bundle.of([OPEN]), Bundle.of([OWN]), Bundle.of([NOBODY]), Bundle.of([OWN, last])]
    periods = [
        Period(Span(quarter * QUARTER, (quarter + 1) * QUARTER), each) for quarter, each in enumerate(bundles)
    ]
    clients = [
        Client(Credential("key", f"c{number}", "bench", 2.0 * STORED, {"drug": f"drug{number}"}))
        for number in range(CLIENTS)
    ]
    named = next(each.id for each in kind.attributes if each.name == attribute)
    question = Question(kind.id, named, Span(numbers.start, numbers.stop), float(STORED))
    async with AccessFinder.of(question, Evidence(catalogue, clients, periods), bundles) as chances:
        views = {each.credential.name: View(await chances.find(each, periods)) for each in clients}
        return await count(store, question, views, chances)


if __name__ == "__main__":
    main(run)
