"""Who may look, and do what: sign-in by token or by a provider's word, and every right decided by the fabric itself.

Invariants: a token is kept as its hash only; a viewer may do what a policy of the domain allows
(`/authfabric/console`, with the actions below), and only whoever runs the console may do all that its own
credentials allow; whatever cannot be decided is denied.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Protocol

import msgspec

from authz import AuthFabricError, Decision, Entity
from authz.request import Attributes

OBJECT = "/authfabric/console"
"""The object that policies name to let viewers in."""
SESSION_SECONDS = 8 * 3600.0
"""How long a sign-in lasts."""
MOST_SESSIONS = 1024
"""Maximum sign-ins at a time: the oldest makes room."""
OPERATOR = "operator"
"""How the one who runs the console is called."""
_HASH = re.compile(r"[0-9a-f]{64}")


class Deed(enum.StrEnum):
    """What viewers do: the actions by which policies allow it."""

    VIEW = "view"
    ASK = "ask"
    RELEASE = "release"
    REVOKE = "revoke"


class InvalidViewers(AuthFabricError):
    """A file of viewers that cannot be used: `problem` says why."""

    def __init__(self, source: str, problem: str) -> None:
        super().__init__(f"`{source}`: {problem}")
        self.problem = problem


class _Named(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    token_sha256: str


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    viewers: list[_Named]


@dataclass(frozen=True, slots=True)
class Viewer:
    """Somebody who has signed in."""

    name: str
    operator: bool = False
    attributes: Attributes = field(default_factory=dict)
    """What a provider says of them."""
    form_word: str = field(default_factory=lambda: secrets.token_urlsafe(18))
    """What every form must send back: no other site knows it."""


class Asks(Protocol):
    """What decides about viewers."""

    async def check(self, subject: Entity, object: str, action: str) -> Decision: ...


def token_hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def read_viewers(path: Path) -> dict[str, str]:
    """The names of viewers by the hashes of their tokens. Raises InvalidViewers."""
    try:
        named = msgspec.yaml.decode(path.read_bytes(), type=_File).viewers
    except OSError as error:
        raise InvalidViewers(str(path), error.strerror or str(error)) from None
    except (msgspec.DecodeError, ValueError) as error:
        raise InvalidViewers(str(path), re.sub(r"\s+", " ", str(error))) from None
    return _checked(str(path), named)


def _checked(source: str, named: Iterable[_Named]) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in named:
        if not _HASH.fullmatch(each.token_sha256):
            raise InvalidViewers(source, f"token_sha256 of `{each.name}` must be 64 hexadecimal digits")
        if each.name in {*found.values(), OPERATOR, ""}:
            raise InvalidViewers(source, f"`{each.name}` is named twice, is empty, or is the operator's name")
        found[each.token_sha256] = each.name
    return found


class Viewers:
    """Those who may sign in, and those who have."""

    def __init__(self, asks: Asks, operator_token: str, others: dict[str, str]) -> None:
        """`others` are the names of viewers by the hashes of their tokens."""
        self._asks = asks
        self._operator = token_hash(operator_token)
        self._others = others
        self._sessions: dict[str, tuple[Viewer, float]] = {}

    async def sign_in(self, token: str) -> str | None:
        """What to remember a viewer by; None if the token is nobody's, or whose it is may not look."""
        given = token_hash(token)
        viewer: Viewer | None = None
        if hmac.compare_digest(given, self._operator):
            viewer = Viewer(OPERATOR, operator=True)
        elif given in self._others:
            viewer = Viewer(self._others[given])
        return None if viewer is None else await self._begin(viewer)

    async def sign_in_as(self, name: str, attributes: Attributes) -> str | None:
        """The same for somebody whom a provider names; None if that is nobody's name, or they may not look."""
        return None if name in ("", OPERATOR) else await self._begin(Viewer(name, attributes=attributes))

    async def _begin(self, viewer: Viewer) -> str | None:
        if not await self.may(viewer, Deed.VIEW):
            return None
        session = secrets.token_urlsafe(32)
        self._sessions[token_hash(session)] = (viewer, monotonic() + SESSION_SECONDS)
        while len(self._sessions) > MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        return session

    def find(self, session: str) -> Viewer | None:
        """Whose sign-in this is."""
        viewer, until = self._sessions.get(token_hash(session), (None, 0.0))
        return viewer if monotonic() < until else None

    def sign_out(self, session: str) -> None:
        self._sessions.pop(token_hash(session), None)

    async def may(self, viewer: Viewer, deed: Deed) -> bool:
        """Whether the fabric lets a viewer do something now."""
        if viewer.operator:
            return True
        subject = Entity(viewer.name, viewer.attributes)
        return (await self._asks.check(subject, OBJECT, deed)).allowed
