"""What every policy source offers the engine: a verdict on a request, and the facts that imply it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from authz.decision import Basis, Effect, Reason
from authz.predicate import Certificate, Literal
from authz.request import Request


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """What one source says of a request. Without effect it says nothing: none of its policies applies."""

    effect: Effect | None
    policies: tuple[str, ...] = ()
    """The policies that determine the effect, by id."""
    certificate: Certificate | None = None
    """If asked for: literals such that every request in which they hold gets this same effect (or none)."""
    expires: float | None = None
    """Unix time after which this must be judged anew; None if only a policy change voids it."""
    reason: Reason = Reason.POLICY
    """Why, where a source denies because it could not judge."""
    detail: str = ""
    basis: Basis | None = None
    """What alone this followed from, if the source can say so; see Basis."""
    unconcerned: bool = False
    """Whether the source is silent about this object and action by id, whoever asks."""
    obligations: tuple[dict[str, object], ...] = ()
    """Those of all policies that determine the effect: each of them binds."""


SILENT = Verdict(None)


class PolicySource(Protocol):
    """Policies of one kind. Judging does no I/O and changes nothing."""

    @property
    def name(self) -> str: ...

    def judge(self, request: Request, certify: bool = False) -> Verdict:
        """The verdict on a request, with its certificate if `certify`. No valid request makes it raise."""
        ...


@runtime_checkable
class Prepares(Protocol):
    """A source that prepares its first certificates on request, since they take longer."""

    def prepare(self) -> None: ...


def combine(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict of several sources together: a deny overrides, and silence leaves it to the others."""
    if not verdicts:
        return SILENT
    denied = [each for each in verdicts if each.effect is Effect.DENY]
    if denied:
        return _together(Effect.DENY, denied, _shortest(denied))
    allowed = [each for each in verdicts if each.effect is Effect.ALLOW]
    # That nobody denies is part of the reason, so the silent ones are certified too.
    return _together(Effect.ALLOW if allowed else None, verdicts, _all(verdicts))


def _together(effect: Effect | None, verdicts: Sequence[Verdict], certificate: Certificate | None) -> Verdict:
    failed = next((each for each in verdicts if each.reason is not Reason.POLICY), SILENT)
    return Verdict(
        effect,
        tuple(policy for each in verdicts for policy in each.policies),
        certificate,
        min((each.expires for each in verdicts if each.expires is not None), default=None),
        failed.reason,
        failed.detail or next((each.detail for each in verdicts if each.detail), ""),
        _basis(effect, verdicts),
        obligations=tuple(duty for each in verdicts for duty in each.obligations),
    )


def _basis(effect: Effect | None, verdicts: Sequence[Verdict]) -> Basis | None:
    """Labels that forbid do so whatever else applies. Otherwise all who have a say must name the same basis."""
    if effect is Effect.DENY:
        return Basis.LABELS if any(each.basis is Basis.LABELS for each in verdicts) else None
    bases = {each.basis for each in verdicts if not each.unconcerned}
    return bases.pop() if len(bases) == 1 else None


def _shortest(verdicts: Iterable[Verdict]) -> Certificate | None:
    """One deny is enough, so the certificate of any one will do."""
    certificates = [each.certificate for each in verdicts if each.certificate is not None]
    return min(certificates, key=len, default=None)


def _all(verdicts: Iterable[Verdict]) -> Certificate | None:
    together: dict[Literal, None] = {}
    for each in verdicts:
        if each.certificate is None:
            return None
        together.update(dict.fromkeys(each.certificate))
    return tuple(together)
