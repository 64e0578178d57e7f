"""Whoever waits for work that takes long hears that it goes on."""

from __future__ import annotations

import threading

from pdp.releases.progress import logging_progress


def test_work_that_takes_long_is_said_to_go_on_until_it_is_done(caplog):
    said = threading.Event()
    caplog.handler.addFilter(lambda record: said.set() or True)
    with logging_progress("compiling release 3", every=0.01):
        assert said.wait(60)
    count = len(caplog.records)
    assert caplog.records[0].getMessage() == "compiling release 3: 0 s so far"
    assert threading.active_count() == 1 or all(t.name != "progress" for t in threading.enumerate())
    assert len(caplog.records) == count
