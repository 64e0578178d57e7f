"""What the console counts: recycling by kind, how long PDPs take, and who was shown what."""

from __future__ import annotations

from authfabric.console.decision_log import MOST_SHOWN, SECONDS, DecisionLog, Shown, percentiles, shares
from authz import Decision, Request
from authz.decision import Inference
from bus.audit import AuditRecord, Disclosure
from bus.runtime import Latencies

READ = Request.of("ann", "/x", "read")
NOW = 1_000_000.0


def record(method: str | None = None) -> AuditRecord:
    inferred = None if method is None else Inference(method)
    decision = Decision(True, policies=("readers",), inferred=inferred)
    return AuditRecord("w", 1, b"", NOW, READ, decision)


def shown(subject: str, events: int, replayed: bool = False) -> AuditRecord:
    told = Disclosure(
        subject, "a.Type", "a.Type", ("place",), ("rule",), ((b"p", 1, NOW),) * events, replayed
    )
    return AuditRecord("w", 1, b"", NOW, disclosed=told)


def test_shares_of_recycling_are_of_all_that_was_decided_lately():
    log = DecisionLog()
    log.take([record(), record("precise"), record("precise"), record("saam-rbac")], NOW)
    seconds = log.rates(NOW + 1)
    assert len(seconds) == SECONDS
    assert shares(seconds, "precise")[-1] == 0.5
    assert shares(seconds, "saam-rbac")[-1] == 0.25
    assert shares(log.rates(NOW + 60), "precise")[-1] == 0
    assert log.policies["readers"] == 4


def counts(*seconds: float) -> tuple[int, ...]:
    found = Latencies()
    for each in seconds:
        found.add(each)
    return tuple(found.counts)


def test_percentiles_are_of_what_members_answered_since_they_were_last_heard():
    log = DecisionLog()
    log.count({"pdp-1": counts(2.0, 2.0, 2.0)}, NOW)  # before this console: not of now
    log.count({"pdp-1": counts(2.0, 2.0, 2.0, 0.001, 0.001, 0.001, 0.2)}, NOW)
    assert percentiles(log.rates(NOW + 1), 0.5)[-1] == 0.001
    assert percentiles(log.rates(NOW + 1), 0.99)[-1] == 0.25
    log.count({"pdp-1": counts(0.01)}, NOW + 30)  # it was restarted
    assert percentiles(log.rates(NOW + 31), 0.5)[-1] == 0.01
    assert percentiles(log.rates(NOW + 60), 0.5)[-1] == 0


def test_disclosures_are_counted_by_who_was_shown_what_and_how():
    log = DecisionLog()
    log.take([shown("ann", 2), shown("bob", 1), shown("ann", 3), shown("ann", 1, replayed=True)], NOW)
    live = Shown("ann", "a.Type", "a.Type", ("place",), ("rule",), replayed=False)
    assert log.shown[live].events == 5
    assert [(each.subject, each.replayed) for each in log.shown] == [
        ("bob", False), ("ann", False), ("ann", True),
    ]  # fmt: skip


def test_disclosures_of_so_many_kinds_are_remembered_and_no_more():
    log = DecisionLog()
    log.take([shown(f"subject-{number}", 1) for number in range(MOST_SHOWN + 5)], NOW)
    assert len(log.shown) == MOST_SHOWN
    assert next(iter(log.shown)).subject == "subject-5"
