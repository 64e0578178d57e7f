"""Asking a domain's access control service: for a capability that lasts a little longer, or to take one back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from authz import Identity
from authz.crypto import Seal
from authz.spki import Notice
from authz.spki.capability import encode
from bus.errors import BadMessage, BusError
from bus.wire import Unpack, pack, subjects

if TYPE_CHECKING:
    from bus.nats.connection import Connection

SECONDS = 5.0
CARRIED_MARK = "carries="
"""Prefix, in a connection's label, of the mark of the types that it may carry."""
_WHO_AM_I = "$SYS.REQ.USER.INFO"


class AccessRefused(BusError):
    """The access control service does not do what it was asked: `problem` says why."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"the access control service refuses: {problem}")
        self.problem = problem


class CapabilityRequest(msgspec.Struct, frozen=True, array_like=True):
    """A request for the capability that its signer is entitled to now. It is accepted for a few seconds only."""

    at: float
    session: str = ""
    """The session whose active roles count; none for what the holder is enrolled with."""


class RevocationRequest(msgspec.Struct, frozen=True, array_like=True):
    """A notice to be stored for all, and the proof of its issuer's right."""

    notice: bytes
    chain: bytes = b""
    """A capability chain that comes from an owner and leads to the issuer, or that the issuer can take back."""


class AccessAnswer(msgspec.Struct, frozen=True, array_like=True):
    """A capability chain, encoded; or why there is none."""

    chain: bytes = b""
    problem: str = ""
    certificate: str = ""
    """A TLS certificate over the same key, and those between it and the domain's own; PEM."""


CAPABILITY_REQUEST: Seal[CapabilityRequest] = Seal("capability request", CapabilityRequest)
unpack_revocation = Unpack(RevocationRequest)
_unpack = Unpack(AccessAnswer)


async def ask_capability(
    connection: Connection, at: float, session: str = "", identity: Identity | None = None
) -> bytes:
    """A chain that ends with a key, by default the connection's own, fresh from the service. Raises AccessRefused."""
    return (await ask_renewal(connection, at, session, identity)).chain


async def ask_renewal(
    connection: Connection, at: float, session: str = "", identity: Identity | None = None
) -> AccessAnswer:
    """A fresh chain, and a fresh TLS certificate over the same key. Raises AccessRefused."""
    if identity is None:
        assert connection.credentials is not None
        identity = connection.credentials.identity
    return await _ask(
        connection, subjects.RENEW, CAPABILITY_REQUEST.sign(CapabilityRequest(at, session), identity)
    )


async def ask_revocation(connection: Connection, notice: Notice, chain: bytes = b"") -> None:
    """Have a capability taken back everywhere; whoever is connected by it is disconnected. Raises AccessRefused.

    Where the service knows nothing of the issuer, a chain from an owner shows that its word counts.
    """
    credentials = connection.credentials  # where nobody has any, nobody is there to answer
    submitter = notice.issuer if credentials is None else credentials.identity.public
    await _ask(
        connection, subjects.revoke(subjects.place(submitter)), pack(RevocationRequest(encode(notice), chain))
    )


class _User(msgspec.Struct, frozen=True):
    user: str = ""


class _WhoAmI(msgspec.Struct, frozen=True):
    data: _User = _User()


def carried_mark(label: str) -> str:
    """What stands for the types that the connection with this label may carry; nothing if it may carry none."""
    marks = (each for each in label.split(" ") if each.startswith(CARRIED_MARK))
    return next(marks, "").removeprefix(CARRIED_MARK)


async def own_carried_mark(connection: Connection) -> str:
    """The same of a connection of one's own, as its server has it. Raises BusError."""
    answer = await connection.ask(_WHO_AM_I, b"", SECONDS)
    try:
        return carried_mark(msgspec.json.decode(answer, type=_WhoAmI).data.user)
    except msgspec.DecodeError as error:
        raise BadMessage("user", str(error)) from None


async def _ask(connection: Connection, subject: str, payload: bytes) -> AccessAnswer:
    answer = _unpack(await connection.ask(subject, payload, SECONDS))
    if answer.problem:
        raise AccessRefused(answer.problem)
    return answer


def refusal(problem: str) -> bytes:
    return pack(AccessAnswer(problem=problem))
