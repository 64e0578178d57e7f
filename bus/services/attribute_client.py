"""Attribute services on the bus: whoever knows something about subjects, objects or the context answers PDPs.

Answers are signed, and repeat the question's nonce: a PDP takes attributes only from the key it was told to trust, and
only as the answer to what it asked. A service that knows when something changes may say so, and PDPs ask anew.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import TypeAlias

import msgspec

from authz import AuthFabricError, Identity, PublicKey
from authz.crypto import Seal, UntrustedSigner
from authz.errors import InvalidSignature
from authz.request import Attributes
from bus.errors import BadMessage, BusError, NotConnected
from bus.nats import Connection
from bus.services.responder import responding
from bus.wire import DEFAULT_DOMAIN, Unpack, pack, subjects

PER_MESSAGE = 500
"""Maximum entities that one message is about."""

_log = logging.getLogger("authfabric.bus")


class AttributesFailed(BusError):
    """A service that did not say what was asked: `problem` says why."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class EntityAttributes(msgspec.Struct, frozen=True, array_like=True):
    """What is known of one entity, and for how many seconds; None if the service does not say."""

    attributes: Attributes
    seconds: float | None = None


LookUp: TypeAlias = Callable[[str, Sequence[str], Sequence[str]], Awaitable[Mapping[str, EntityAttributes]]]
"""From `subject`, `object`, `action` or `context`, some ids and names of attributes, to what is known."""


class _Question(msgspec.Struct, frozen=True, array_like=True):
    root: str
    ids: list[str]
    names: list[str]
    nonce: bytes


class _Answer(msgspec.Struct, frozen=True, array_like=True):
    nonce: bytes
    found: dict[str, EntityAttributes] = {}
    problem: str = ""


class _Changed(msgspec.Struct, frozen=True, array_like=True):
    root: str
    ids: list[str]


class _Sealed(msgspec.Struct, frozen=True, array_like=True):
    data: bytes


_unpack_question = Unpack(_Question)
_unpack_sealed = Unpack(_Sealed)


def serve_attributes(
    bus: Connection, name: str, identity: Identity, look_up: LookUp, domain: str = DEFAULT_DOMAIN
) -> AbstractAsyncContextManager[None]:
    """Answer as the domain's service of this name, for the length of the block. Several processes may share a name."""
    seal = _seal(name)

    def packed(answer: _Answer) -> bytes:
        return pack(_Sealed(seal.sign(answer, identity)))

    async def answer(payload: bytes) -> bytes:
        question = _unpack_question(payload)
        try:
            found = await look_up(question.root, question.ids, question.names)
            return packed(_Answer(question.nonce, dict(found)))
        except BadMessage:
            return packed(_Answer(question.nonce, problem="the answer is too large"))
        except AuthFabricError as error:
            return packed(_Answer(question.nonce, problem=str(error)))
        except Exception as error:
            _log.exception("attributes could not be looked up")
            return packed(_Answer(question.nonce, problem=f"{type(error).__name__} in the service"))

    busy = packed(_Answer(b"", problem="too many questions at once"))
    return responding(
        bus,
        [subjects.attributes(domain, name)],
        answer,
        busy=busy,
        queue=subjects.QUEUE,
        at_once=64,
        waiting=1024,
    )


async def ask_attributes(
    bus: Connection,
    name: str,
    trusted: PublicKey,
    root: str,
    ids: Sequence[str],
    names: Sequence[str],
    seconds: float,
    domain: str = DEFAULT_DOMAIN,
) -> Mapping[str, EntityAttributes]:
    """What the domain's service of this name, with this key, knows.

    Raises AttributesFailed, NoResponders or ReplyTimeout.
    """
    seal, nonce = _seal(name), secrets.token_bytes(16)
    found: _Answer | None = None

    def valid(payload: bytes) -> bool:
        nonlocal found
        try:
            answer = seal.open(_unpack_sealed(payload).data, {trusted}).value
        except (BadMessage, InvalidSignature, UntrustedSigner):
            return False
        if answer.nonce not in (nonce, b"") or (not answer.nonce and not answer.problem):
            return False
        found = answer
        return True

    await bus.ask(
        subjects.attributes(domain, name),
        pack(_Question(root, list(ids), list(names), nonce)),
        seconds,
        valid,
    )
    assert found is not None
    if found.problem:
        raise AttributesFailed(found.problem)
    return found.found


def announce_changes(
    bus: Connection,
    name: str,
    identity: Identity,
    root: str,
    ids: Sequence[str],
    domain: str = DEFAULT_DOMAIN,
) -> None:
    """Tell PDPs, in the name of the service, to ask anew about these entities. Who does not hear it asks later."""
    seal = _changes_seal(name)
    for start in range(0, len(ids), PER_MESSAGE):
        said = _Changed(root, list(ids[start : start + PER_MESSAGE]))
        with suppress(NotConnected):
            bus.send(subjects.attributes_changed(domain, name), pack(_Sealed(seal.sign(said, identity))))


@asynccontextmanager
async def hearing_changes(
    bus: Connection,
    name: str,
    trusted: PublicKey,
    changed: Callable[[str, Sequence[str]], None],
    domain: str = DEFAULT_DOMAIN,
) -> AsyncIterator[None]:
    """Call back with the root and ids of entities whose attributes have changed, for the length of the block."""
    seal = _changes_seal(name)

    def hear(subject: str, reply: str, payload: bytes, headers: bytes) -> None:
        with suppress(BadMessage, InvalidSignature, UntrustedSigner):
            said = seal.open(_unpack_sealed(payload).data, {trusted}).value
            changed(said.root, said.ids)

    subscription = await bus.listen(subjects.attributes_changed(domain, name), hear)
    try:
        yield
    finally:
        with suppress(NotConnected):
            await subscription.cancel()


def _seal(name: str) -> Seal[_Answer]:
    return Seal(f"attributes of {name}", _Answer)


def _changes_seal(name: str) -> Seal[_Changed]:
    return Seal(f"changed attributes of {name}", _Changed)
