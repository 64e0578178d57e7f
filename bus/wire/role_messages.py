"""What is said to a domain's role service, and what it says.

Everything said is signed by whoever says it, in answer to a challenge that the service made a moment ago. So neither a
name nor the id of a session is of use to whoever lacks the key, and nothing can be said a second time by others.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from authz.crypto import Seal
from authz.predicate import Scalar
from bus.wire.envelope import Unpack


class Begin(msgspec.Struct, frozen=True, array_like=True, tag="begin"):
    """Begin a session. Its id is the challenge's nonce."""

    principal: str = ""
    """The name of whoever signs, as the policies know it; empty for the key itself."""
    rules: str = ""
    """The domain whose role rules count; may be left out if the policies have only one."""
    seconds: float | None = None
    """How long it may last at most; None for as long as the service allows."""


class Activate(msgspec.Struct, frozen=True, array_like=True, tag="activate"):
    """Activate a role, showing certificates for it."""

    session: str
    role: str
    appointments: tuple[bytes, ...] = ()


class Deactivate(msgspec.Struct, frozen=True, array_like=True, tag="deactivate"):
    """Give a role up, and all that rests on it."""

    session: str
    role: str


class End(msgspec.Struct, frozen=True, array_like=True, tag="end"):
    """End a session."""

    session: str


class Look(msgspec.Struct, frozen=True, array_like=True, tag="look"):
    """Which roles are active?"""

    session: str


class Appoint(msgspec.Struct, frozen=True, array_like=True, tag="appoint"):
    """Give somebody an appointment, in a role that may."""

    session: str
    content: str
    """Such as `nurse(bob, w7)`."""
    holder: str
    seconds: float | None = None
    bound: bool = False
    """Whether it ends with the session."""


class Revoke(msgspec.Struct, frozen=True, array_like=True, tag="revoke"):
    """Revoke an appointment: in a session, or as whoever has issued it."""

    appointment: bytes
    session: str = ""


class Tell(msgspec.Struct, frozen=True, array_like=True, tag="tell"):
    """A fact is true, or is so no longer."""

    fact: str
    holds: bool = True
    seconds: float | None = None
    """How long it may be believed without being told again; None for until told otherwise."""


class Set(msgspec.Struct, frozen=True, array_like=True, tag="set"):
    """An attribute of the context has this value now; None if it has none."""

    name: str
    value: Scalar | None
    seconds: float | None = None


Deed: TypeAlias = Begin | Activate | Deactivate | End | Look | Appoint | Revoke | Tell | Set


class Command(msgspec.Struct, frozen=True, array_like=True):
    """A deed that somebody wants done, and the challenge it answers."""

    challenge: bytes
    deed: Deed


class Said(msgspec.Struct, frozen=True, array_like=True):
    """A sealed command; nothing asks for a challenge."""

    data: bytes = b""


class Outcome(msgspec.Struct, frozen=True, array_like=True):
    """What came of it."""

    challenge: bytes = b""
    session: str = ""
    roles: tuple[str, ...] = ()
    """The roles that are active in the session now."""
    role: str = ""
    """The role that was activated, in full."""
    ended: tuple[str, ...] = ()
    """What ended by it, each with its cause."""
    appointment: bytes = b""
    seconds: float | None = None
    """How long the session, or what is active in it, lasts by itself."""
    problem: str = ""
    """Why nothing was done, if that is so."""
    again: bool = False
    """Whether to say it again, with a new challenge: something came in between."""


def command_seal(domain: str) -> Seal[Command]:
    """How commands to a domain's role service are signed."""
    return Seal(f"role command in {domain}", Command)


unpack_said = Unpack(Said)
unpack_outcome = Unpack(Outcome)
