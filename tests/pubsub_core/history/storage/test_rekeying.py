"""Another key takes over a history while it is written and read; on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
import sys
from itertools import islice

import pytest
from sqlalchemy import create_engine, text

from authfabric.files.history import read_history_keys, write_history_keys
from authz.predicate import Equal
from pubsub_core.history.errors import HistoryDamaged, HistoryUnavailable
from pubsub_core.history.history_keys import HistoryKeys
from pubsub_core.history.retention import HistorySetting
from pubsub_core.history.storage import rekeying
from pubsub_core.history.storage.store import HistoryStore
from tests.pubsub_core.conftest import place
from tests.pubsub_core.history.databases import postgresql, url
from tests.pubsub_core.history.storage.test_store import DRUG, TYPE, add, event, everything, keep, path
from tests.pubsub_core.history.test_replay import ATTRIBUTES, SEARCHED, publish

__all__ = ["place", "postgresql", "url"]

OLD, NEW = b"o" * 32, b"n" * 32
OPIATE = Equal(path(DRUG), "morphine")


@pytest.fixture(autouse=True)
def small_pages(monkeypatch):
    monkeypatch.setattr(rekeying, "PAGE", 10)


def events(start: int, end: int):
    return [event(n, drug=("morphine", "aspirin")[n % 2], amount=n) for n in range(start, end)]


def filled(url: str) -> None:
    with HistoryStore(url, HistoryKeys.of([OLD])) as history:
        keep(history)
        add(history, events(0, 45))
        history.append([], [b"a mark", b"another"])


def whole(history: HistoryStore, count: int) -> None:
    """All events are there, are found by a blinded value, and their chain holds."""
    assert [each.sequence for each in everything(history)] == list(range(count))
    assert [each.sequence for each in everything(history, OPIATE)] == list(range(0, count, 2))
    assert max(history.verify(TYPE)) == count
    assert [body for _, body in history.marks()] == [b"a mark", b"another"]


def test_all_that_is_kept_is_under_the_new_key_and_the_old_one_opens_nothing(url):
    filled(url)
    with HistoryStore(url, HistoryKeys.of([OLD, NEW])) as history:
        assert list(history.rekey())[-1] == 45
        whole(history, 45)
    with HistoryStore(url, HistoryKeys.of([NEW])) as history:
        whole(history, 45)
        add(history, events(45, 60))
        whole(history, 60)
    with pytest.raises(HistoryUnavailable, match="sealed by another key"):
        HistoryStore(url, HistoryKeys.of([OLD]))
    thief = HistoryKeys.of([OLD])
    with create_engine(url).connect() as connection:
        rows = connection.execute(text(f"SELECT * FROM events_{TYPE}")).mappings().all()
        marks = connection.execute(text("SELECT body FROM history_marks")).scalars().all()
    for row in rows:
        assert (
            thief.open(
                bytes(row["body"]), rekeying.place_of(TYPE, row["publisher"], row["time"], row["sequence"])
            )
            is None
        )
        assert bytes(row[f"blind_{DRUG}"]) not in (
            *thief.blinds(DRUG, "morphine"),
            *thief.blinds(DRUG, "aspirin"),
        )
    assert [thief.open(bytes(each), rekeying.MARK) for each in marks] == [None, None]


def test_what_was_broken_off_is_whole_and_goes_on_while_others_write_and_forget(url):
    filled(url)
    keys = [OLD]
    with HistoryStore(url, HistoryKeys.of(keys, lambda: tuple(keys))) as broker:
        whole(broker, 45)
        keys.append(NEW)
        for pages in (1, 2):
            with HistoryStore(url, HistoryKeys.of(keys)) as history:
                assert list(islice(history.rekey(), pages)) == [10, 20][:pages]
                whole(history, 45)
            whole(broker, 45)
        assert add(broker, events(45, 70)) == 25
        whole(broker, 70)
        assert broker.prune(TYPE, 4.0) == 4  # before the seam
        assert max(broker.verify(TYPE)) == 66
        assert broker.prune(TYPE, 50.0) == 46  # and beyond it
        assert max(broker.verify(TYPE)) == 20
        with HistoryStore(url, HistoryKeys.of(keys)) as history:
            list(history.rekey())
        assert max(broker.verify(TYPE)) == 20
    with HistoryStore(url, HistoryKeys.of([NEW])) as history:
        assert max(history.verify(TYPE)) == 20
        assert [each.sequence for each in everything(history, OPIATE)] == list(range(50, 70, 2))


@pytest.mark.parametrize("forgotten", [9, 10, 11])
def test_what_is_forgotten_before_up_to_and_beyond_the_seam_breaks_no_chain(url, forgotten):
    filled(url)
    with HistoryStore(url, HistoryKeys.of([OLD, NEW])) as history:
        assert list(islice(history.rekey(), 1)) == [10]
        assert history.prune(TYPE, float(forgotten)) == forgotten
        assert max(history.verify(TYPE)) == 45 - forgotten
        list(history.rekey())
        assert max(history.verify(TYPE)) == 45 - forgotten


def test_a_type_that_a_broker_began_just_before_is_sealed_anew_too(url):
    with HistoryStore(url, HistoryKeys.of([OLD])):
        pass
    with HistoryStore(url, HistoryKeys.of([OLD, NEW])) as history:
        filled(url)
        list(history.rekey())
    with HistoryStore(url, HistoryKeys.of([NEW])) as history:
        keep(history)
        whole(history, 45)


def test_whoever_has_not_heard_of_the_new_key_writes_nothing_and_reads_nothing(url):
    filled(url)
    with HistoryStore(url, HistoryKeys.of([OLD])) as broker:
        with HistoryStore(url, HistoryKeys.of([OLD, NEW])) as history:
            next(history.rekey())
        with pytest.raises(HistoryDamaged):
            add(broker, events(45, 46))
        with pytest.raises(HistoryUnavailable, match="another key, which is not here yet"):
            everything(broker, OPIATE)


@pytest.mark.parametrize(
    "change", ["DELETE FROM {} WHERE sequence = 15", "UPDATE {} SET link = body WHERE sequence = 15"]
)
def test_what_was_altered_is_found_and_not_sealed_anew(url, change):
    filled(url)
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text(change.format(f"events_{TYPE}")))
    engine.dispose()
    with HistoryStore(url, HistoryKeys.of([OLD, NEW])) as history:
        with pytest.raises(HistoryDamaged):
            list(history.rekey())
        with pytest.raises(HistoryDamaged):
            list(history.verify(TYPE))


async def test_a_running_broker_goes_over_by_itself_and_every_event_is_replayed(url, place, tmp_path):
    """The command runs in a process of its own, while events are published and replayed."""
    file = tmp_path / "met.key"
    write_history_keys(file, [OLD])
    kind = await place.define("Prescribe", *ATTRIBUTES)
    setting = HistorySetting(url, OLD, (SEARCHED,), lambda: read_history_keys(file))
    await place.broker("met", history=setting)
    async with place.connected("nurse", "met") as nurse, place.connected("auditor", "met") as auditor:
        await publish(nurse, kind, range(3000))
        command = ("-m", "authfabric", "history", "rekey", "--history", url, "--history-key", file)
        rekey = await asyncio.create_subprocess_exec(sys.executable, *map(str, command))
        published = 3000
        while rekey.returncode is None:
            await publish(nurse, kind, range(published, published + 50))
            published += 50
            replay = await auditor.replay(kind.name, "drug = 'morphine'")
            assert [each["amount"] async for each in replay] == list(range(1, published, 2))
        assert rekey.returncode == 0
        await publish(nurse, kind, range(published, published + 50))
        assert [each["amount"] async for each in await auditor.replay(kind.name)] == list(
            range(published + 50)
        )
    (new,) = read_history_keys(file)
    assert new != OLD
    with HistoryStore(url, HistoryKeys.of([new])) as history:
        assert max(history.verify(kind.id)) == published + 50
    with pytest.raises(HistoryUnavailable, match="sealed by another key"):
        HistoryStore(url, HistoryKeys.of([OLD]))
