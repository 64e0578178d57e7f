"""Attribute services on the bus: whoever knows something about subjects, objects or the context answers PDPs.

Answers are signed, and repeat the question's nonce: a PDP takes attributes only from the key it was told to trust, and
only as the answer to what it asked.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias

import msgspec

from authz import Identity, PublicKey
from authz.errors import InvalidSignature
from authz.request import Attributes
from authz.seal import Seal, UntrustedSigner
from bus.connection import Connection
from bus.envelope import Unpack, pack
from bus.errors import BadMessage, BusError
from bus.responder import responding
from bus.subjects import QUEUE, attributes

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


class _Sealed(msgspec.Struct, frozen=True, array_like=True):
    data: bytes


_unpack_question = Unpack(_Question)
_unpack_sealed = Unpack(_Sealed)


def serve_attributes(
    bus: Connection, name: str, identity: Identity, look_up: LookUp
) -> AbstractAsyncContextManager[None]:
    """Answer as the service of this name, for the length of the block. Several processes may share a name."""
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
        except Exception as error:
            _log.exception("attributes could not be looked up")
            return packed(_Answer(question.nonce, problem=f"{type(error).__name__} in the service"))

    busy = packed(_Answer(b"", problem="too many questions at once"))
    return responding(bus, [attributes(name)], answer, busy=busy, queue=QUEUE, at_once=64, waiting=1024)


async def ask_attributes(
    bus: Connection,
    name: str,
    trusted: PublicKey,
    root: str,
    ids: Sequence[str],
    names: Sequence[str],
    seconds: float,
) -> Mapping[str, EntityAttributes]:
    """What the service of this name, with this key, knows. Raises AttributesFailed, NoResponders or ReplyTimeout."""
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

    await bus.ask(attributes(name), pack(_Question(root, list(ids), list(names), nonce)), seconds, valid)
    assert found is not None
    if found.problem:
        raise AttributesFailed(found.problem)
    return found.found


def _seal(name: str) -> Seal[_Answer]:
    return Seal(f"attributes of {name}", _Answer)
