"""Times of which past events are wanted, by the fluents that held then."""

from __future__ import annotations

from collections.abc import Sequence

from authz.errors import InvalidSyntax
from authz.rules import Moment, parse_term
from pubsub_core.errors import InvalidFilter
from pubsub_core.history.position import ALWAYS, Span, common
from pubsub_core.rules import Context, Fluent, Interval


def read_fluent(text: str) -> Fluent:
    """A fluent such as `underInvestigation('nurse_8821')`. Raises InvalidFilter."""
    try:
        found = parse_term(text)
    except InvalidSyntax:
        found = Moment(shift=1)
    things = tuple(each for each in found.base.arguments if isinstance(each, str | int | float | bool))
    if found.shift or len(things) < len(found.base.arguments):
        raise InvalidFilter(text, "must be a fluent of what it is about: `underInvestigation('nurse_8821')`")
    return Fluent(found.base.name, things)


def periods(context: Context, during: str, not_during: str) -> Sequence[Span]:
    """When one fluent held and another did not, as far as is known here. Raises InvalidFilter, Unknowable."""
    found: Sequence[Span] = ALWAYS
    if during:
        found = common(found, _spans(context.fluents.during(_certain(context, during))))
    if not_during:
        found = common(found, _spans(context.fluents.not_during(_certain(context, not_during))))
    return found


def _certain(context: Context, text: str) -> Fluent:
    fluent = followed(context, text)
    context.certain(fluent.name)
    return fluent


def followed(context: Context, text: str) -> Fluent:
    """The fluent, if it is one of which this broker knows when it holds. Raises InvalidFilter."""
    fluent = read_fluent(text)
    if context.defined.get(fluent.name) != len(fluent.arguments):
        known = [f"`{name}` of {count}" for name, count in sorted(context.defined.items())]
        there = f"there are {', '.join(known)}" if known else "there are none at the moment"
        raise InvalidFilter(text, f"is no fluent that is followed here: {there}")
    return fluent


def _spans(intervals: Sequence[Interval]) -> Sequence[Span]:
    return [Span(each.start, each.end) for each in intervals]
