"""One use of a capability: whether it is permitted now, and what it leaves of the rates that bind it.

Pure: the time comes with the use, and the counts come from the caller and go back to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from authz.spki import content
from authz.spki.authority import Grant
from authz.spki.capability import Capability
from authz.spki.condition import Rate
from authz.spki.content import Content
from authz.spki.errors import Fault, UseRefused
from authz.spki.resource import Right


@dataclass(frozen=True, slots=True)
class Use:
    """Someone is about to exercise a right over a resource, at this time."""

    right: Right
    name: str
    at: float
    content: Content | None = None
    """What is published, delivered or asked; None if there is none yet, as when someone subscribes."""


@dataclass(frozen=True, slots=True)
class Tally:
    """How often something was used in one period of a rate."""

    period: int
    count: int


Spent: TypeAlias = Mapping[tuple[Grant, Rate], Tally]
"""What a holder has used up, kept by whoever permits its uses. It starts empty."""


@dataclass(frozen=True, slots=True)
class Permit:
    """A use is permitted by this grant, whose attributes and content conditions remain to be enforced."""

    grant: Grant
    spent: Spent


def permit(capability: Capability, use: Use, spent: Spent) -> Permit:
    """Permit a use by the first grant that allows it, or raise UseRefused with what the last one lacked.

    Without content the grant's conditions on content are not looked at: who enforces a subscription makes
    them its filter.
    """
    refusal = UseRefused(
        Fault.NOT_GRANTED, f"no right to {use.right} {use.right.kind} `{use.name}` is granted"
    )
    if not capability.validity.covers(use.at):
        raise UseRefused(Fault.EXPIRED, "the capability is not valid now")
    for grant in capability.authority.select(use.right, use.name):
        try:
            return Permit(grant, _spend(grant, use, spent))
        except UseRefused as error:
            refusal = error
    raise refusal


def _spend(grant: Grant, use: Use, spent: Spent) -> Spent:
    if not all(window.holds(use.at) for window in grant.windows):
        raise UseRefused(Fault.OUTSIDE_WINDOW, f"`{use.name}` may not be used at this time of the week")
    if use.content is not None and not content.holds(grant.resource.kind, grant.where)(use.content):
        raise UseRefused(Fault.CONTENT, f"the content is not what may be used of `{use.name}`")
    tallies = {(grant, rate): _count(rate, use, spent.get((grant, rate))) for rate in grant.rates}
    return {**spent, **tallies} if tallies else spent


def _count(rate: Rate, use: Use, tally: Tally | None) -> Tally:
    """One more use. A clock that went back does not begin a period anew."""
    period = int(use.at // rate.seconds)
    if tally is None or tally.period < period:
        return Tally(period, 1)
    if tally.count >= rate.count:
        problem = f"`{use.name}` may be used {rate.count} times in {rate.seconds} s, and has been"
        raise UseRefused(Fault.OVER_RATE, problem)
    return Tally(tally.period, tally.count + 1)
