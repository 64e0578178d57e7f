"""The options of an Enforcer, said once, `Enforcer` and `SyncEnforcer` take them alike; and the forms of a question."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from authz import Entity, Request
from authz.request import Attributes
from bus.identity import Credentials
from pep.asking import Strategy
from pep.auditing import AuditRules
from pep.trust import Trust
from sdp_cache import LeaseRules, Recycling


class ConnectOptions(TypedDict, total=False):
    """How to connect to a fabric."""

    domain: str
    strategy: Strategy | str
    """How to ask: `hedge` unless told otherwise."""
    deadline: float
    """Seconds that a check may take, unless a call says otherwise."""
    credentials: Credentials | None
    name: str
    connect_seconds: float
    trust: Trust
    """Whose word counts, as keys or files of keys."""
    recycling: Recycling | None
    """What may be answered from the cache; None always asks."""
    lease: LeaseRules
    snapshot: Path | str | None
    """A file of precomputed decisions."""
    learn: Sequence[str]
    """Topics of which others' signed answers are recycled too."""
    audit: bool | AuditRules | None
    """Whether decisions go to the audit stream; None: if somebody has set one up. `AuditRules` say more."""


class LocalOptions(TypedDict, total=False):
    """How to decide in the service's own process."""

    entities: Sequence[Path | str]
    """Files of known entities, for searches."""
    attributes: Path | str | None
    """A file that says where attributes are looked up."""
    recycling: Recycling | None
    audit: Path | str | None
    """The file to which every decision is appended."""
    name: str


class ManyOptions(TypedDict, total=False):
    """How to ask many questions at once."""

    deadline: float | None
    strategy: Strategy | str | None
    at_least: int
    """The epoch whose policies, or newer ones, must have decided."""


class CheckOptions(ManyOptions, total=False):
    """How to ask one question."""

    context: Attributes | None


class ExplainOptions(TypedDict, total=False):
    """How to have a decision explained."""

    context: Attributes | None
    viewer: str | Entity | None
    """Who will see it: the policies are left out unless they may `explain` the object."""
    deadline: float


def as_request(
    subject: str | Entity | Request, thing: str | Entity, action: str | Entity, context: Attributes | None
) -> Request:
    """What is asked, given as a Request or in its parts."""
    return subject if isinstance(subject, Request) else Request.of(subject, thing, action, context)


def as_entity(given: str | Entity) -> Entity:
    """An entity, given as one or by its name alone."""
    return Entity(given) if isinstance(given, str) else given
