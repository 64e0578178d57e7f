"""Rules in words, for those whom policy lets ask which rules apply to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from authz.predicate import FALSE, TRUE, Predicate
from authz.predicate.filter import write_filter
from pubsub_core.rules.interaction import Interaction
from pubsub_core.types import Attribute, name_filter


def described(interaction: Interaction, attributes: Mapping[str, Attribute]) -> Iterator[str]:
    """One line for each rule. `attributes` are those of the type, by UUID."""

    def text(predicate: Predicate) -> str:
        return "nothing" if predicate == FALSE else write_filter(name_filter(predicate, attributes)) or "all"

    def where(predicate: Predicate) -> str:
        return "" if predicate == TRUE else " never" if predicate == FALSE else f" where {text(predicate)}"

    for permit in interaction.permits:
        yield f"rule {permit.id} allows{where(permit.where) or ' all'}"
    for bar in interaction.bars:
        yield f"rule {bar.id} demands {text(bar.filter)}{where(bar.where)}{_instead(bar.overrides)}"
    for change in interaction.changes:
        steps = ", then ".join(map(str, change.steps))
        yield f"rule {change.id} makes {change.to} by {steps}{where(change.where)}{_instead(change.overrides)}"
    for replay in interaction.replays:
        yield f"rule {replay.id} replays past events on {replay.rule.trigger}"


def _instead(overrides: tuple[str, ...]) -> str:
    return f", instead of {', '.join(overrides)}" if overrides else ""
