"""Asking over the bus what may be listed. Only a PDP that may decide everything there is believed."""

from __future__ import annotations

import asyncio
from time import time
from typing import TYPE_CHECKING

from msgspec.structs import replace

from authz import Entity, Request
from authz.scope import Scope, ScopeRefused
from bus.errors import BadMessage, NoResponders, ReplyTimeout
from bus.wire import ScopeQuery, pack, subjects, unpack_scope_answer
from pep.asking.hedging import RETRY_SECONDS

if TYPE_CHECKING:
    from authz.authority import Decider
    from pep.asking.asker import Asker

MAX_SECONDS = 10.0
"""How long a scope holds at the most, whatever it says."""


async def ask_scope(asker: Asker, query: ScopeQuery, seconds: float) -> Scope:
    """The first answer that counts; others are as if they had not arrived.

    Raises ScopeRefused, NoResponders or ReplyTimeout.
    """
    example = Request(query.subject, Entity(query.under or "any"), query.action, query.context)
    example.validate()
    subject, authenticity = subjects.scope(asker.domain), asker.authenticity
    if authenticity is not None:
        asker.sent += 1
        query = replace(query, asker=authenticity.asker, number=asker.sent)
    question = pack(query)
    answered: asyncio.Future[bytes] = asker.loop.create_future()

    def take(payload: bytes, nobody: bool) -> None:
        if answered.done():
            return
        if nobody:
            if authenticity is None:  # otherwise anyone may have said so
                answered.set_exception(NoResponders(subject))
            return
        if authenticity is None:
            answered.set_result(payload)
            return
        opened = authenticity.open(subject, question, payload)
        if opened is not None and _may_decide(opened[1], query, example):
            answered.set_result(opened[0])

    reply = asker.connection.expect(take)
    try:
        async with asyncio.timeout(seconds):
            wait = RETRY_SECONDS
            while not answered.done():  # who answers may have to introduce itself first
                asker.connection.send(subject, question, reply)
                await asyncio.wait([answered], timeout=wait)
                wait *= 2
        found = unpack_scope_answer(answered.result())
    except TimeoutError:
        raise ReplyTimeout(subject, seconds) from None
    finally:
        asker.connection.forget(reply)
    if found.scope is None:
        raise ScopeRefused(found.problem, found.place)
    if found.scope.under != query.under:
        raise BadMessage("scope", "is about other objects")
    return replace(found.scope, until=min(found.scope.until, time() + MAX_SECONDS))


def _may_decide(decider: Decider, query: ScopeQuery, example: Request) -> bool:
    """Whether a decider's authority covers every object of the scope, now."""
    below = f"{query.under.rstrip('/')}/*" if query.under.strip("/") else "*"
    return decider.may_decide_under(below) and decider.may_decide_all([example], time())
