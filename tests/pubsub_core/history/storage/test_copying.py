"""A history goes whole from one database into another, of another kind too, and goes on there."""

from __future__ import annotations

import pytest

from pubsub_core.history import HistoryStore, HistoryUnavailable, read_history, write_history
from tests.pubsub_core.history.databases import databases, postgresql
from tests.pubsub_core.history.storage.test_store import TYPE, VAULT, add, event, everything, keep

__all__ = ["databases", "postgresql"]


def test_a_copy_holds_the_same_events_and_takes_more(databases, tmp_path):
    events = [event(number, drug="morphine", amount=number) for number in range(600)]
    first, between, second = databases(), f"sqlite:///{tmp_path}/between.db", databases()
    with HistoryStore(first, VAULT) as history:
        keep(history)
        add(history, events)
        for source, target in ((first, between), (between, second)):
            assert write_history(target, read_history(source)) > 600  # while it is open, too
    with HistoryStore(second, VAULT) as history:
        keep(history)
        assert everything(history) == events
        assert list(history.verify(TYPE))[-1] == 600  # the chain of hashes holds
        add(history, [event(600, drug="aspirin", amount=1)])
        assert len(everything(history)) == 601


def test_nothing_is_written_over_a_history_nor_read_where_there_is_none(databases):
    first = databases()
    with pytest.raises(HistoryUnavailable, match="holds none"):
        list(read_history(first))
    with HistoryStore(first, VAULT) as history:
        keep(history)
        add(history, [event(1, drug="morphine", amount=1)])
    with pytest.raises(HistoryUnavailable, match="holds a history already"):
        write_history(first, read_history(first))
