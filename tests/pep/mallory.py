"""An attacker who hears every question and answer and sends what it likes, and a PEP that trusts one root."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from time import time

from authz import Decision, Identity, Request
from authz.crypto.agreement import AgreementKey, AnswerMac
from bus import Connection
from bus.wire.answer_mac import unwrap, wrap
from bus.wire.envelope import pack
from bus.wire.messages import Answers, unpack_questions
from bus.wire.subjects import is_inbox
from pep import Enforcer
from pep.trust.authenticity import Refusal
from tests.deciders import Gated, Readers
from tests.waiting import eventually

ROOT, EVE = Identity.generate(), Identity.generate()
ALLOW = Decision(True, policies=("forged",))
WRITE = Request.of("ann", "/sales/q1", "write")
READ = Request.of("ann", "/sales/q1", "read")


class Liars(Readers):
    """Allows everything."""

    def decide(self, request: Request) -> Decision:
        return ALLOW


@dataclass(frozen=True)
class Heard:
    """A question as it was sent."""

    subject: str
    reply: str
    payload: bytes

    def lie(self) -> bytes:
        """Yes to everything, in the plain form."""
        return pack(Answers([ALLOW] * len(unpack_questions(self.payload).requests)))


@dataclass
class Mallory:
    """Hears everything, and answers each question at once with whatever `forge` makes of it."""

    bus: Connection
    forge: Callable[[Heard], list[bytes]] = lambda heard: []
    questions: list[Heard] = field(default_factory=list)
    answers: list[bytes] = field(default_factory=list)
    """Authentic ones that went to anybody."""

    def overhear(self, subject: str, payload: bytes) -> None:
        if is_inbox(subject) and unwrap(payload) is not None:
            self.answers.append(payload)

    def hear(self, subject: str, reply: str, payload: bytes, headers: bytes) -> None:
        heard = Heard(subject, reply, payload)
        self.questions.append(heard)
        for each in self.forge(heard):
            self.bus.send(reply, each)


@contextlib.asynccontextmanager
async def mallory(
    url: str, forge: Callable[[Heard], list[bytes]] = lambda heard: []
) -> AsyncIterator[Mallory]:
    async with Connection(url) as bus:
        attacker = Mallory(bus, forge)
        await bus.listen("af.ask.>", attacker.hear)
        await bus.listen("_INBOX.>", lambda subject, r, data, h: attacker.overhear(subject, data))
        await bus.flush()
        yield attacker


@contextlib.asynccontextmanager
async def trusting(
    url: str, *introduced: Identity, deadline: float = 10.0, **options
) -> AsyncIterator[Enforcer]:
    """A PEP that trusts the root and knows these replicas."""
    async with Enforcer.connect(url, trust=[ROOT.public], deadline=deadline, **options) as pep:
        deciders = pep.asker.authenticity.deciders
        await eventually(lambda: all(deciders.get(each.public.raw, time()) for each in introduced))
        yield pep


def refused(pep: Enforcer) -> dict[Refusal, int]:
    return pep.asker.authenticity.refused


async def answered(pep: Enforcer, gated: Gated, refusal: Refusal, request: Request = WRITE) -> Decision:
    """The decision, where the true PDP decides only when something was refused for this reason."""
    before = refused(pep)[refusal]
    asking = asyncio.create_task(pep.check(request))
    await eventually(lambda: refused(pep)[refusal] > before)
    assert not asking.done()
    gated.gate.set()
    return await asking


def by_stranger(heard: Heard) -> bytes:
    """Well authenticated, by someone nobody introduced."""
    asker = unpack_questions(heard.payload).asker
    mac = AnswerMac.of_decider(AgreementKey.of(EVE), asker)
    return wrap(EVE.public.raw, mac.tag(heard.subject, heard.payload, heard.lie()), heard.lie())


PDP = Identity.generate()
