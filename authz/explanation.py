"""Why a request is decided as it is, as people and programs are told."""

from __future__ import annotations

import json

import msgspec

from authz.decision import Decision, Effect
from authz.request import Request


class Change(msgspec.Struct, frozen=True):
    """One fact that would have to be so, and what is there instead; null is an attribute that is missing."""

    needs: str
    path: str
    found: object = None

    def __str__(self) -> str:
        return f"{self.needs}; {self.path} is {shown(self.found)}"


class PolicyExplanation(msgspec.Struct, frozen=True):
    """Whether a policy applies, and the fewest changes after which it would not, or would; none if none help.

    The changes are meant together: each of them is needed.
    """

    policy: str
    source: str
    effect: Effect
    applies: bool
    changes: tuple[Change, ...]
    determines: bool = False
    description: str = ""
    because: tuple[str, ...] = ()
    """All the facts that make it apply, or, where no change is told, that keep it from applying."""

    @property
    def state(self) -> str:
        return "determines this" if self.determines else "applies" if self.applies else "does not apply"

    def details(self) -> list[str]:
        """Why it applies, and what would undo a denial; or what it would need to apply. A line each."""
        reasons = [f"because {each}" for each in self.because]
        if not self.applies:
            return reasons + [f"would need {each}" for each in self.changes]
        if self.effect is Effect.ALLOW:
            return reasons
        undoing = [f"{'and if' if n else 'would not apply if'} {each}" for n, each in enumerate(self.changes)]
        return reasons + undoing

    def __str__(self) -> str:
        name = f"{self.policy} ({self.description})" if self.description else self.policy
        return "\n".join([f"{self.effect} {name} {self.state}", *(f"  {each}" for each in self.details())])


class Explanation(msgspec.Struct, frozen=True):
    """A decision with every policy that is about its subject, object and action."""

    request: str
    decision: Decision
    policies: tuple[PolicyExplanation, ...]
    others: int
    """How many more policies there are, about other subjects, objects or actions."""

    def __str__(self) -> str:
        lines = [f"{self.request}: {self.decision}", *map(str, self.policies)]
        if self.others:
            lines.append(f"{self.others} more about other subjects, objects or actions")
        return "\n".join(lines)


def outline(request: Request, decision: Decision) -> Explanation:
    """What may be told of a decision to whoever may not see policies."""
    bare = Decision(decision.allowed, decision.reason, epoch=decision.epoch, expires=decision.expires)
    return Explanation(str(request), bare, (), 0)


def shown(value: object) -> str:
    """A value as a person is told it."""
    return "missing" if value is None else json.dumps(value, ensure_ascii=False, default=str)
