"""Whether answers were right: each by a release that was in force, and as that release says.

A release is in force from when it is begun to be stored. It is out of force for good when a later one is reported
complete, or a lease after a later one was acknowledged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from authfabric.chaos.checker.violations import Kind, Violation
from authfabric.chaos.record import Answers, Feed, Kept, Push, Question
from authfabric.chaos.workload import policy_of

HISTORY = 64
"""How many entries of a domain a store keeps, releases and what strangers put there."""


@dataclass(frozen=True, slots=True)
class Known:
    """A release: what it permits, and from when to when it may count."""

    permits: frozenset[Question]
    begun: float
    stored: float
    """When it was known to be stored."""
    complete: float | None = None
    end: float = float("inf")
    """The last instant at which somebody who asks may be answered by it."""


class Releases:
    """The releases of a run, by number and hash: after a store was restored two may have one number."""

    def __init__(self, lease: float, pushes: Iterable[Push], kept: Iterable[Kept]) -> None:
        """What pushes say that came of them, and what the store says of those that failed and were stored anyway."""
        made = {each.push: each for each in pushes}
        self._known = {
            (each.epoch, each.hash): Known(frozenset(each.permits), each.begun, each.stored, each.complete)
            for each in made.values()
            if each.epoch
        }
        for each in kept:
            push = made.get(each.push)
            if push is not None and (each.epoch, each.hash) not in self._known:
                self._known[each.epoch, each.hash] = Known(frozenset(push.permits), push.begun, each.at)
        end = float("inf")
        for key in sorted(self._known, key=lambda each: (each[0], self._known[each].begun), reverse=True):
            known = self._known[key]
            self._known[key] = Known(known.permits, known.begun, known.stored, known.complete, end)
            end = min(
                end, known.stored + lease, known.stored + lease if known.complete is None else known.complete
            )

    def find(self, epoch: int, hash_: str) -> Known | None:
        """The release of this number and hash; the last of the number, if only that is known. None: nobody made it."""
        if hash_:
            return self._known.get((epoch, hash_))
        found = [known for (number, _), known in self._known.items() if number == epoch]
        return max(found, key=lambda each: each.begun, default=None)

    def permitted(self, question: Question, asked: float, answered: float) -> bool:
        """Whether a release that was in force at some instant between the two permits this."""
        return any(
            question in each.permits and each.begun <= answered and asked <= each.end
            for each in self._known.values()
        )

    def revoked(self, question: Question, epoch: int) -> float | None:
        """When a release after this one that does not permit the question was stored; None if there is none."""
        later = sorted(
            (number, known.stored)
            for (number, _), known in self._known.items()
            if number > epoch and question not in known.permits
        )
        return later[0][1] if later else None


def check_answers(answers: Iterable[Answers], releases: Releases) -> Iterator[Violation]:
    for each in answers:
        kind, why = _judge(each, releases)
        if kind is not None:
            how = "allowed" if each.allowed else "denied"
            text = f"{each.pep}: `{each.question}` {how} by release {each.epoch} at {each.last:.3f}: {why}"
            yield Violation(kind, text, each.count)


def _judge(answer: Answers, releases: Releases) -> tuple[Kind | None, str]:
    question, allowed, asked = answer.question, answer.allowed, answer.last
    if allowed and answer.policies != (policy_of(question),):
        return Kind.UNAUTHORISED, f"by the policies {', '.join(answer.policies) or 'of nobody'}"
    known = releases.find(answer.epoch, answer.hash)
    if known is None:
        return (Kind.WRONG_ALLOW if allowed else Kind.STALE), "nobody made such a release"
    if allowed and question not in known.permits:
        return Kind.WRONG_ALLOW, "the release does not permit it"
    if answer.first < known.begun:
        return (Kind.WRONG_ALLOW if allowed else Kind.STALE), "before the release was made"
    if asked > known.end:
        late = f"{asked - known.end:.3f} s after the release had ceased to count"
        wrong = allowed and not releases.permitted(question, asked, asked + answer.slowest)
        return (Kind.WRONG_ALLOW if wrong else Kind.STALE), late
    if not allowed and question in known.permits:
        return Kind.WRONG_DENY, "the release permits it"
    return None, ""


def longest_revocation(answers: Iterable[Answers], releases: Releases) -> float:
    """The most seconds for which anything was still allowed after a release without it was acknowledged."""
    longest = 0.0
    for each in answers:
        if each.allowed:
            revoked = releases.revoked(each.question, each.epoch)
            if revoked is not None:
                longest = max(longest, each.last - revoked)
    return longest


def check_feeds(feeds: Sequence[Feed], answers: Iterable[Answers]) -> Iterator[Violation]:
    """A PEP never goes back, and takes no answer that is older than what it knew when it asked."""
    known: dict[str, list[Feed]] = defaultdict(list)
    for feed in sorted(feeds, key=lambda each: each.at):
        last = known[feed.pep][-1] if known[feed.pep] else Feed(0.0, feed.pep, 0)
        before = last.epoch
        if feed.epoch and feed.epoch == before and feed.hash and last.hash and feed.hash != last.hash:
            text = (
                f"{feed.pep} went from one release {before} ({last.hash[:12]}) to another ({feed.hash[:12]})"
            )
            yield Violation(Kind.REGRESSION, text)
        if feed.epoch and feed.epoch < before:
            yield Violation(Kind.REGRESSION, f"{feed.pep} went from release {before} back to {feed.epoch}")
        if feed.epoch > before:
            known[feed.pep].append(feed)
    for each in answers:
        newer = [feed for feed in known.get(each.pep, ()) if feed.epoch > each.epoch]
        if newer and each.last > newer[0].at:
            text = f"{each.pep} took an answer by release {each.epoch}, and knew release {newer[0].epoch}"
            yield Violation(Kind.REGRESSION, text, each.count)


def check_pushes(pushes: Sequence[Push], kept: Iterable[Kept]) -> Iterator[Violation]:
    """What was acknowledged is in the store in the end, once, as it was; unless the store is full, and it was older."""
    last = [each for each in kept if each.last]
    stored: dict[str, list[Kept]] = defaultdict(list)
    for each in last:
        stored[each.push].append(each)
    oldest = min((each.epoch for each in last if each.epoch), default=0) if len(last) >= HISTORY else 0
    for push in pushes:
        found = stored[push.push]
        if len(found) > 1:
            yield Violation(Kind.DUPLICATED, f"{push.push} made {len(found)} releases")
        if push.epoch and push.epoch >= oldest and push.hash not in {each.hash for each in found}:
            yield Violation(
                Kind.LOST, f"{push.push}, acknowledged as release {push.epoch}, is not in the store"
            )


def check_bounds(pushes: Iterable[Push], lease: float) -> Iterator[Violation]:
    """What was said about when a release is in force everywhere is what is promised."""
    for each in pushes:
        if each.epoch and (each.bound is None or each.bound > lease):
            said = "never" if each.bound is None else f"within {each.bound:g} s"
            yield Violation(Kind.BOUND, f"{each.push}: in force {said}, where {lease:g} s are promised")
