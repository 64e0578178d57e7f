"""Whether events arrived: what was acknowledged, once, in order, no more than may be seen, and gaps told."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from authfabric.chaos.checker.violations import Kind, Violation
from authfabric.chaos.record import Audited, AuditKept, Delivered, Entry, GapTold, Published, Subscribed


def check_delivery(entries: Iterable[Entry]) -> Iterator[Violation]:
    published: dict[str, list[Published]] = defaultdict(list)
    subscribed: dict[str, Subscribed] = {}
    seen: dict[str, list[Delivered | GapTold]] = defaultdict(list)
    for each in entries:
        match each:
            case Published():
                published[each.publisher].append(each)
            case Subscribed():
                subscribed[each.subscriber] = each
            case Delivered() | GapTold():
                seen[each.subscriber].append(each)
    for name, terms in subscribed.items():
        owed = {
            publisher: {
                number
                for each in taken
                if terms.whole or each.begun > terms.at
                for number in range(each.start, each.stop)
            }
            for publisher, taken in published.items()
        }
        yield from _check_subscriber(terms, seen[name], owed)


def _check_subscriber(
    terms: Subscribed, seen: Iterable[Delivered | GapTold], owed: dict[str, set[int]]
) -> Iterator[Violation]:
    """What came, in order; `owed` are the acknowledged events of each publisher that it is to see.

    Whoever asked for the past is sent what was missed from the histories, later.
    """
    seen = list(seen)
    replayed = {
        (each.publisher, each.number)
        for each in seen
        if terms.whole and isinstance(each, Delivered) and each.again
    }
    who, rest = terms.subscriber, {publisher: set(numbers) for publisher, numbers in owed.items()}
    received: dict[str, set[int]] = defaultdict(set)
    told = set[str]()
    """Publishers of whom events may be missing before the next, as the subscriber was told."""
    for each in seen:
        if isinstance(each, GapTold):
            told = set(owed)
            continue
        publisher, number = each.publisher, each.number
        if undue := set(each.shown) - set(terms.may_see):
            text = f"{who} saw `{', '.join(sorted(undue))}` of event {number} of {publisher}"
            yield Violation(Kind.UNDUE, text)
        if number in received[publisher]:
            yield Violation(Kind.DUPLICATED, f"{who} received event {number} of {publisher} twice")
            continue
        received[publisher].add(number)
        waiting = rest.setdefault(publisher, set())
        waiting.discard(number)
        skipped = {each for each in waiting if each < number and (publisher, each) not in replayed}
        if skipped and publisher not in told:
            text = f"{who} received event {number} of {publisher}, and was not told that {min(skipped)} is missing"
            yield Violation(Kind.UNTOLD_GAP, text, len(skipped))
        waiting -= skipped
        told.discard(publisher)
    for publisher, numbers in rest.items():
        if numbers and publisher not in told:
            text = f"{who} never received events {min(numbers)} to {max(numbers)} of {publisher}"
            yield Violation(Kind.LOST, text, len(numbers))


def check_audit(audited: Iterable[Audited], kept: Iterable[AuditKept]) -> Iterator[Violation]:
    """Every record that a writer was told to be stored is there, in a chain that holds."""
    found = {each.writer: each for each in kept}
    stored: dict[str, int] = {}
    for each in audited:
        stored[each.writer] = max(each.stored, stored.get(each.writer, 0))
    for writer, number in stored.items():
        there = found.get(writer)
        if there is None or there.stop < number:
            has = f"only those up to {there.stop}" if there is not None else "none"
            lost = number - (there.stop if there is not None else 0)
            yield Violation(Kind.LOST, f"of {number} audit records of {writer} the stream has {has}", lost)
        elif there.broken:
            yield Violation(Kind.LOST, f"the audit chain of {writer} breaks: {there.broken}")
