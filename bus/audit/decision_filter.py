"""A filter of the decisions in an audit trail."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from authz import Decision, Request


@dataclass(frozen=True, slots=True)
class DecisionFilter:
    """What is empty fits all. A text fits what contains it, or a pattern with `*` the whole."""

    subject: str = ""
    object: str = ""
    action: str = ""
    effect: str = ""
    policy: str = ""
    since: float = 0.0
    """The earliest time, in Unix time."""
    until: float = float("inf")

    def fits(self, request: Request, decision: Decision, at: float) -> bool:
        return (
            _fits(self.subject, request.subject.id)
            and _fits(self.object, request.object.id)
            and _fits(self.action, request.action.id)
            and self.effect in ("", decision.effect)
            and (not self.policy or any(_fits(self.policy, each) for each in decision.policies))
            and self.since <= at <= self.until
        )

    @property
    def wants_all(self) -> bool:
        """Whether everything fits."""
        return self == DecisionFilter()


def _fits(wanted: str, text: str) -> bool:
    return fnmatchcase(text, wanted) if "*" in wanted else wanted in text
