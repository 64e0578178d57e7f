"""The checker finds each kind of broken promise in a record into which one was planted, and none in one without."""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from authfabric.chaos.checker.verdict import Verdict, check
from authfabric.chaos.record import (
    Answers,
    Audited,
    AuditKept,
    Delivered,
    Entry,
    Fault,
    Feed,
    GapTold,
    Kept,
    LinkState,
    ProcessState,
    Published,
    Push,
    Recorder,
    RecordRefused,
    Revoked,
    Run,
    Subscribed,
    Unanswered,
    read,
)
from authfabric.chaos.workload.policies import QUESTIONS, policy_of

LEASE = 15.0
GIVEN, REVOKED, NEVER = QUESTIONS[:3]
RUN = Run(0.0, 1, 60.0, ("pep-1",), ("pdp-1", "pdp-2"), ("node1", "node2", "node3"), LEASE, LEASE)


def answers(
    question: str,
    epoch: int,
    at: float,
    *,
    allowed: bool = True,
    by: str = "",
    pep: str = "pep-1",
    release: str = "",
) -> Answers:
    policies = (by or policy_of(question),) if allowed else ()
    return Answers(pep, question, allowed, epoch, 1, at + 0.001, at, 0.001, policies, release)


def peaceful() -> list[Entry]:
    """Two releases, the second of which revokes a right; answers, audit records and events as they should be."""
    return [
        RUN,
        Fault(1.0, "pdp-killed", "pdp-1", 2.0),
        Push("push-1", 0.0, 0.5, (GIVEN, REVOKED), 1, "h1", 2.0, LEASE),
        Push("push-2", 10.0, 10.5, (GIVEN,), 2, "h2", 20.0, LEASE),
        Kept(50.0, "push-1", 1, "h1", True),
        Kept(50.0, "push-2", 2, "h2", True),
        Feed(1.0, "pep-1", 1),
        answers(GIVEN, 1, 5.0),
        answers(REVOKED, 1, 12.0),  # it has not come here yet
        Feed(13.0, "pep-1", 2),
        answers(REVOKED, 2, 14.0, allowed=False),
        answers(NEVER, 2, 14.0, allowed=False),
        Audited(30.0, "writer", 100),
        AuditKept("writer", 1, 120),
        Subscribed(1.0, "reader", ("publisher", "number", "value")),
        Subscribed(1.0, "late", ("number",), whole=True),
        Published(2.0, 2.5, "sensor", 0, 3),
        *(Delivered(3.0, who, "sensor", n, ("number",)) for n in range(3) for who in ("reader", "late")),
    ]


def test_a_run_in_which_all_went_well_holds():
    verdict = check(peaceful())
    assert verdict.holds
    assert (verdict.requests, verdict.faults, verdict.kinds) == (4, 1, ["pdp-killed"])
    assert (verdict.pushes, verdict.complete, verdict.published, verdict.delivered) == (2, 2, 3, 6)
    assert verdict.max_revocation_ms == 1500.0
    assert verdict.bound_ms == 15_000.0


LONG_PUSH = Push("push-2", 10.0, 10.5, (GIVEN,), 2, "h2", None, LEASE)

PLANTED: dict[str, tuple[str, Sequence[Entry]]] = {
    "an allow that its release does not permit": ("wrong_allow", [answers(NEVER, 2, 15.0)]),
    "an allow by a revoked release after completion": (
        "wrong_allow",
        [answers(REVOKED, 1, 20.1, pep="pep-2")],
    ),
    "an allow by a release that nobody made": ("wrong_allow", [answers(GIVEN, 7, 15.0)]),
    "an allow by another release of the same number": (
        "wrong_allow",
        [
            Push("push-3", 30.0, 30.5, (GIVEN, NEVER), 3, "h3", 31.0, LEASE),
            Push("push-4", 40.0, 40.5, (GIVEN,), 3, "h4", 41.0, LEASE),
            Kept(50.0, "push-3", 3, "h3", True),
            Kept(50.0, "push-4", 3, "h4", True),
            answers(NEVER, 3, 45.0, release="h4", pep="pep-2"),
            answers(GIVEN, 3, 45.0, release="h4", pep="pep-2"),
            answers(NEVER, 3, 35.0, release="h3", pep="pep-2"),
        ],
    ),
    "an allow by a release of another hash": ("wrong_allow", [answers(GIVEN, 2, 15.0, release="h9")]),
    "an allow by a release that was not made yet": ("wrong_allow", [answers(GIVEN, 2, 9.0)]),
    "a denial by a revoked release after completion": (
        "stale",
        [answers(NEVER, 1, 20.1, allowed=False, pep="pep-2")],
    ),
    "an allow by an old release of what the new one permits": (
        "stale",
        [answers(GIVEN, 1, 20.1, pep="pep-2")],
    ),
    "a denial of what its release permits": ("wrong_deny", [answers(GIVEN, 2, 15.0, allowed=False)]),
    "an answer by other policies": ("unauthorised", [answers(GIVEN, 2, 15.0, by="lie")]),
    "an acknowledged push that is gone": (
        "lost_acknowledged",
        [Push("push-3", 30.0, 30.5, (GIVEN,), 3, "h3", None, LEASE)],
    ),
    "an acknowledged push with another in its place": (
        "lost_acknowledged",
        [Push("push-3", 30.0, 30.5, (GIVEN,), 3, "h3", None, LEASE), Kept(50.0, "push-3", 3, "h9", True)],
    ),
    "a push that made two releases": ("duplicated", [Kept(50.0, "push-2", 3, "h3", True)]),
    "audit records that are gone": ("lost_acknowledged", [Audited(31.0, "writer", 121)]),
    "an audit writer that is gone": ("lost_acknowledged", [Audited(31.0, "another", 1)]),
    "an audit chain that breaks": (
        "lost_acknowledged",
        [Audited(31.0, "another", 1), AuditKept("another", 1, 9, "is altered")],
    ),
    "an event that never came": ("lost_acknowledged", [Published(4.0, 4.5, "sensor", 3, 4)]),
    "an event that came twice": ("duplicated", [Delivered(5.0, "reader", "sensor", 2, ("number",))]),
    "an event left out without a word": (
        "untold_gaps",
        [
            Published(4.0, 4.5, "sensor", 3, 5),
            *(Delivered(5.0, who, "sensor", 4, ("number",)) for who in ("reader", "late")),
        ],
    ),
    "an attribute that its subscriber may not see": (
        "undue",
        [Delivered(5.0, "late", "sensor", 3, ("number", "value"))],
    ),
    "a PEP that goes over to another release of the same number": (
        "epoch_regressions",
        [Feed(14.0, "pep-2", 2, "h2"), Feed(15.0, "pep-2", 2, "h9")],
    ),
    "a PEP that goes back": ("epoch_regressions", [Feed(16.0, "pep-1", 1)]),
    "an answer older than what the PEP knew": ("epoch_regressions", [answers(GIVEN, 1, 13.5)]),
    "a bound that is longer than promised": (
        "bound",
        [Push("push-3", 30.0, 30.5, (GIVEN,), 3, "h3", None, 20.0), Kept(50.0, "push-3", 3, "h3", True)],
    ),
    "a member without a lease": (
        "bound",
        [Push("push-3", 30.0, 30.5, (GIVEN,), 3, "h3", None, None), Kept(50.0, "push-3", 3, "h3", True)],
    ),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_violation_is_found_and_no_other(planted: str):
    kind, entries = PLANTED[planted]
    verdict = check([*peaceful(), *entries])
    assert not verdict.holds
    assert {str(each.kind) for each in verdict.violations} == {kind}
    if kind != "bound":
        assert msgspec.structs.asdict(verdict)[kind] > 0


def test_whoever_stays_connected_after_a_revocation_is_found():
    assert check([*peaceful(), Revoked(20.0, "guest", 20.5)]).holds
    verdict = check([*peaceful(), Revoked(20.0, "guest", None)])
    assert [str(each.kind) for each in verdict.violations] == ["stayed"]


def test_without_word_of_completion_an_old_release_counts_for_a_lease_and_not_longer():
    record = [LONG_PUSH if isinstance(each, Push) and each.epoch == 2 else each for each in peaceful()]
    record = [each for each in record if not isinstance(each, Feed)]
    within, after = (answers(REVOKED, 1, 10.5 + LEASE + extra) for extra in (-0.1, 0.1))
    assert check([*record, within]).holds
    assert check([*record, within]).max_revocation_ms == 14_900.0
    assert check([*record, after]).wrong_allow == 1


def test_a_push_that_failed_and_was_stored_all_the_same_counts_as_a_release():
    failed = Push("push-3", 30.0, 33.0, (NEVER,), problem="no answer")
    stored = [Kept(at, "push-3", 3, "h3", at == 50.0) for at in (40.0, 50.0)]
    answer = answers(NEVER, 3, 31.0)
    assert check([*peaceful(), failed, *stored, answer]).holds
    assert check([*peaceful(), failed, answer]).wrong_allow == 1


def test_what_a_full_store_has_discarded_is_not_lost_and_anything_newer_is():
    """Whoever forges releases takes room in the store, too."""
    record = [each for each in peaceful() if not isinstance(each, Kept)]
    newest, junk = Kept(50.0, "push-2", 2, "h2", True), Kept(50.0, "", 0, "", True)
    assert check([*record, newest, *[junk] * 63]).holds
    assert check([*record, newest, *[junk] * 62]).lost_acknowledged == 1
    oldest = Kept(50.0, "push-1", 1, "h1", True)
    assert check([*record, oldest, *[junk] * 63]).lost_acknowledged == 1


def test_a_gap_that_was_told_is_none():
    told = [
        Published(4.0, 4.5, "sensor", 3, 5),
        *(GapTold(5.0, who) for who in ("reader", "late")),
        *(Delivered(6.0, who, "sensor", 4, ("number",)) for who in ("reader", "late")),
    ]
    assert check([*peaceful(), *told]).holds


def test_what_was_missed_may_come_later_from_a_history_to_those_who_asked_for_the_past_only():
    def verdict(who: str) -> Verdict:
        other = "late" if who == "reader" else "reader"
        late = [Delivered(7.0, who, "sensor", 3, ("number",), again=True)]
        whole = [Delivered(6.0, other, "sensor", number, ("number",)) for number in (3, 4)]
        skipping = Delivered(6.0, who, "sensor", 4, ("number",))
        return check([*peaceful(), Published(4.0, 4.5, "sensor", 3, 5), *whole, skipping, *late])

    assert verdict("late").holds
    assert verdict("reader").untold_gaps == 1


def test_what_was_published_before_is_owed_to_those_who_asked_for_the_past_only():
    later = [
        Subscribed(40.0, "newcomer", ("number",)),
        Subscribed(40.0, "historian", ("number",), whole=True),
    ]
    verdict = check([*peaceful(), *later])
    assert [each.text for each in verdict.violations] == ["historian never received events 0 to 2 of sensor"]


def unanswered(*states: Entry, asked: float = 30.0) -> Verdict:
    silence = Unanswered("pep-1", GIVEN, "timeout", asked, asked + 10.0)
    return check([*peaceful(), *states, silence])


def test_a_question_is_counted_as_unavailable_only_if_a_pdp_could_be_reached_all_the_while():
    assert unanswered().unanswered == 1
    assert not unanswered().holds
    dead = [ProcessState(20.0, each, False) for each in RUN.pdps]
    assert unanswered(*dead).cut_off == 1
    assert unanswered(dead[0]).unanswered == 1
    assert unanswered(*dead, ProcessState(45.0, "pdp-1", True)).cut_off == 1
    assert unanswered(*dead, ProcessState(25.0, "pdp-1", True)).unanswered == 1
    assert unanswered(*(LinkState(35.0, "pep-1", node, False) for node in RUN.nodes)).cut_off == 1
    assert unanswered(*(LinkState(35.0, "pep-1", node, False) for node in RUN.nodes[:2])).unanswered == 1


def test_a_minority_of_servers_is_no_way_to_a_pdp():
    split = [LinkState(20.0, "node1", other, False) for other in ("node2", "node3")]
    alone = [LinkState(20.0, "pep-1", other, False) for other in ("node2", "node3")]
    assert unanswered(*split, *alone).cut_off == 1
    assert unanswered(*split).unanswered == 1
    assert unanswered(*alone).unanswered == 1


@given(st.integers(0, 2**32), st.sampled_from(sorted(PLANTED)))
def test_the_order_in_which_processes_recorded_does_not_matter(seed: int, planted: str):
    """But for what one subscriber received, whose order is what is checked."""
    entries = [*peaceful(), *PLANTED[planted][1]]
    ordered = [each for each in entries if isinstance(each, Delivered | GapTold)]
    others = [each for each in entries if not isinstance(each, Delivered | GapTold)]
    random.Random(seed).shuffle(others)
    assert msgspec.structs.replace(check([*others, *ordered]), violations=[]) == msgspec.structs.replace(
        check(entries), violations=[]
    )


def test_a_record_is_read_as_it_was_written(tmp_path):
    recorder = Recorder(tmp_path / "record")
    recorder(*peaceful())
    assert list(read(tmp_path / "record")) == peaceful()


def test_the_last_line_of_a_process_that_was_killed_is_left_out(tmp_path):
    (tmp_path / "record").write_bytes(b'{"what":"feed","at":1.0,"pep":"pep-1","epoch":1}\n{"what":"fe')
    assert list(read(tmp_path / "record")) == [Feed(1.0, "pep-1", 1)]


def test_what_is_no_record_is_refused(tmp_path):
    (tmp_path / "record").write_text("hello\n")
    with pytest.raises(RecordRefused, match="line 1 of"):
        list(read(tmp_path / "record"))
    with pytest.raises(RecordRefused, match="cannot be read"):
        list(read(tmp_path / "nothing"))
