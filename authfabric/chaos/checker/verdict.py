"""What a record proves: whether anything happened that is promised never to happen. Pure: entries in, a verdict out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from statistics import median
from typing import TypeVar

import msgspec

from authfabric.chaos.checker.answers import (
    Releases,
    check_answers,
    check_bounds,
    check_feeds,
    check_pushes,
    longest_revocation,
)
from authfabric.chaos.checker.availability import Topology
from authfabric.chaos.checker.delivery import check_audit, check_delivery
from authfabric.chaos.checker.violations import Kind, Violation
from authfabric.chaos.record import (
    Answers,
    Audited,
    AuditKept,
    Delivered,
    Entry,
    Fault,
    Feed,
    Kept,
    LinkState,
    ProcessState,
    Published,
    Push,
    Revoked,
    Run,
    Sample,
    Unanswered,
)

E = TypeVar("E", bound=Entry)

MOST_UNAVAILABLE = 0.01
"""The share of questions that may go unanswered although a PDP is there, in percent."""
TENTHS = 10
SHOWN = 20
"""How many violations of a kind are told one by one."""


class Use(msgspec.Struct, frozen=True):
    """How what a process uses has grown from its first sample to its last."""

    memory_mb: tuple[float, float]
    descriptors: tuple[int, int]
    cpu: float
    """Seconds of processor time that it has used in all, as far as it was seen."""


class Verdict(msgspec.Struct, frozen=True):
    """What a record proves."""

    holds: bool
    requests: int
    faults: int
    kinds: list[str]
    wrong_allow: int
    wrong_deny: int
    stale: int
    """Answers by a release that had ceased to count, which one in force permits too, or which are denials."""
    unauthorised: int
    lost_acknowledged: int
    duplicated: int
    untold_gaps: int
    undue: int
    """Events, or parts of events, that were delivered to somebody who may not see them."""
    epoch_regressions: int
    unavailable: float
    """The share of questions left unanswered while a PDP and a way to it were there, in percent."""
    unanswered: int
    """Those questions."""
    cut_off: int
    """Questions left unanswered while there was no PDP, or no way to one."""
    max_revocation_ms: float
    bound_ms: float
    pushes: int
    """Releases that were acknowledged."""
    complete: int
    """Those that were reported to be in force everywhere."""
    published: int
    delivered: int
    audited: int
    slowest_ms: float
    latency_ms: list[float]
    """The slowest answer to a question within half a second, at the median, in each tenth of the run."""
    used: dict[str, Use]
    """What each process used first and last."""
    violations: list[Violation]


def check(entries: Iterable[Entry]) -> Verdict:
    """Hold a record against everything that is promised."""
    everything = list(entries)
    run = next((each for each in everything if isinstance(each, Run)), Run(0.0, 0, 0.0))
    answers, pushes, kept = _of(everything, Answers), _of(everything, Push), _of(everything, Kept)
    releases, faults = Releases(run.lease, pushes, kept), _of(everything, Fault)
    audited = _of(everything, Audited)
    found = [
        *check_answers(answers, releases),
        *check_feeds(_of(everything, Feed), answers),
        *check_pushes(pushes, kept),
        *check_bounds(pushes, run.bound),
        *check_audit(audited, _of(everything, AuditKept)),
        *check_delivery(everything),
        *_check_revoked(_of(everything, Revoked)),
    ]
    states = [each for each in everything if isinstance(each, ProcessState | LinkState)]
    topology, unanswered = Topology(run, states), _of(everything, Unanswered)
    blamed = [each for each in unanswered if topology.answerable(each.pep, each.asked, each.given_up)]
    requests = sum(each.count for each in answers) + len(unanswered)
    unavailable = 100 * len(blamed) / requests if requests else 0.0
    counts = Counter[Kind]()
    for each in found:
        counts[each.kind] += each.count
    return Verdict(
        holds=not found and unavailable <= MOST_UNAVAILABLE,
        requests=requests,
        faults=len(faults),
        kinds=sorted({each.kind for each in faults}),
        wrong_allow=counts[Kind.WRONG_ALLOW],
        wrong_deny=counts[Kind.WRONG_DENY],
        stale=counts[Kind.STALE],
        unauthorised=counts[Kind.UNAUTHORISED],
        lost_acknowledged=counts[Kind.LOST],
        duplicated=counts[Kind.DUPLICATED],
        untold_gaps=counts[Kind.UNTOLD_GAP],
        undue=counts[Kind.UNDUE],
        epoch_regressions=counts[Kind.REGRESSION],
        unavailable=round(unavailable, 5),
        unanswered=len(blamed),
        cut_off=len(unanswered) - len(blamed),
        max_revocation_ms=round(1000 * longest_revocation(answers, releases), 1),
        bound_ms=1000 * run.lease,
        pushes=sum(1 for each in pushes if each.epoch),
        complete=sum(1 for each in pushes if each.complete is not None),
        published=sum(each.stop - each.start for each in _of(everything, Published)),
        delivered=len(_of(everything, Delivered)),
        audited=sum(
            max(each.stored for each in audited if each.writer == who) for who in {a.writer for a in audited}
        ),
        slowest_ms=round(1000 * max((each.slowest for each in answers), default=0.0), 1),
        latency_ms=_latency(answers),
        used=_used(_of(everything, Sample)),
        violations=_first(found),
    )


def _check_revoked(revoked: Iterable[Revoked]) -> Iterator[Violation]:
    for each in revoked:
        if each.gone is None:
            yield Violation(Kind.STAYED, f"{each.member} is connected after its key was revoked")


def _latency(answers: Sequence[Answers]) -> list[float]:
    if not answers:
        return []
    begun = min(each.last for each in answers)
    length = (max(each.last for each in answers) - begun) / TENTHS or 1.0
    parts: list[list[float]] = [[] for _ in range(TENTHS)]
    for each in answers:
        parts[min(TENTHS - 1, int((each.last - begun) / length))].append(each.slowest)
    return [round(1000 * median(part), 3) if part else 0.0 for part in parts]


def _used(samples: Sequence[Sample]) -> dict[str, Use]:
    taken: dict[str, list[Sample]] = {}
    for each in sorted(samples, key=lambda sample: sample.at):
        taken.setdefault(each.who, []).append(each)
    return {
        who: Use(
            (round(some[0].memory / 1e6, 1), round(some[-1].memory / 1e6, 1)),
            (some[0].descriptors, some[-1].descriptors),
            round(max(each.cpu for each in some), 1),
        )
        for who, some in sorted(taken.items())
    }


def _first(found: Sequence[Violation]) -> list[Violation]:
    """Some violations of each kind."""
    shown, taken = list[Violation](), Counter[Kind]()
    for each in found:
        taken[each.kind] += 1
        if taken[each.kind] <= SHOWN:
            shown.append(each)
    return shown


def _of(entries: Iterable[Entry], kind: type[E]) -> list[E]:
    return [each for each in entries if isinstance(each, kind)]
