"""Queries that are no decisions: why, who may, and what may be listed. Their answers count as decisions' do.

An answer of somebody who may not decide all that it speaks about is as if it had not arrived.
"""

from __future__ import annotations

import asyncio
from asyncio import FIRST_COMPLETED
from collections.abc import Callable
from time import monotonic, time
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from authz import Entity, Request
from authz.explanation import Explanation
from authz.scope import Scope, ScopeRefused, ScopeUnavailable
from bus.errors import BadMessage, NoResponders, ReplyTimeout
from bus.wire import (
    ExplainQuery,
    Mode,
    ScopeQuery,
    SearchPage,
    SearchQuery,
    own_scope,
    pack,
    subjects,
    unpack_explained,
    unpack_scope_answer,
    unpack_search_page,
)
from pep.asking.strategy import RETRY_SECONDS
from pep.errors import ExplanationRefused, SearchRefused
from pep.trust import Authenticity, Refusal

if TYPE_CHECKING:
    from authz.authority import Decider
    from pep.asking.asker import Asker

SCOPE_SECONDS = 10.0
"""How long a scope holds at the most, whatever it says."""
PATIENCE = 2.0
"""How long one replica may search before another is asked, too."""
NOBODY_SECONDS = 1.0
"""For how long it is asked again where nobody listens: anyone may have said so."""

Query = TypeVar("Query", ExplainQuery, SearchQuery, ScopeQuery)


async def ask_why(asker: Asker, request: Request, seconds: float) -> Explanation:
    """Why it is decided as it is, from a PDP that may decide it.

    Raises ExplanationRefused, NoResponders or ReplyTimeout.
    """
    subject = subjects.question(Mode.EXPLAIN, own_scope(asker.domain, request))
    query = ExplainQuery(request)
    answer = await _ask(asker, subject, query, seconds, lambda decider: decider.may_decide(request, time()))
    explained = unpack_explained(answer)
    if explained.explanation is None:
        raise ExplanationRefused(explained.problem)
    return explained.explanation


async def ask_search(asker: Asker, query: SearchQuery, seconds: float) -> SearchPage:
    """One page, from a PDP that may decide all that is sought. Raises SearchRefused, NoResponders or ReplyTimeout."""

    def counts(decider: Decider) -> bool:
        if query.object is None:
            return decider.covers_all(query.under)
        if query.object.id.endswith("*"):
            return decider.covers_all(query.object.id[:-1])
        return decider.covers(query.object.id)

    subject = subjects.search(asker.domain)
    page = unpack_search_page(await _ask(asker, subject, query, seconds, counts, PATIENCE))
    if page.problem:
        raise SearchRefused(page.problem)
    return page


async def ask_scope(asker: Asker, query: ScopeQuery, seconds: float) -> Scope:
    """What may be listed, from a PDP that may decide there.

    Raises ScopeRefused, ScopeUnavailable, NoResponders or ReplyTimeout.
    """
    Request(query.subject, Entity(query.under or "any"), query.action, query.context).validate()
    subject = subjects.scope(asker.domain)
    answer = await _ask(asker, subject, query, seconds, lambda decider: decider.covers_all(query.under))
    found = unpack_scope_answer(answer)
    if found.unavailable:
        raise ScopeUnavailable(found.problem)
    if found.scope is None:
        raise ScopeRefused(found.problem, found.place)
    if found.scope.under != query.under:
        raise BadMessage("scope", "is about other objects")
    return replace(found.scope, until=min(found.scope.until, time() + SCOPE_SECONDS))


async def _ask(
    asker: Asker,
    subject: str,
    query: Query,
    seconds: float,
    counts: Callable[[Decider], bool],
    patience: float = RETRY_SECONDS,
) -> bytes:
    """The first answer of a decider that counts. Raises NoResponders or ReplyTimeout."""
    authenticity, listening = asker.authenticity, True
    number = asker.next_number()
    if authenticity is not None:
        query = replace(query, asker=authenticity.asker, number=number)
    question = pack(query)
    answered: asyncio.Future[bytes] = asker.loop.create_future()
    in_vain = asker.loop.create_future()

    def take(payload: bytes, nobody: bool) -> None:
        nonlocal listening
        listening = not nobody
        if answered.done():
            return
        answer = None if nobody else _counting(authenticity, subject, question, payload, counts)
        if answer is not None:
            answered.set_result(answer)
        elif not in_vain.done():  # who answered may have to introduce itself first
            in_vain.set_result(None)

    reply = asker.connection.expect(take)
    begun, wait = monotonic(), RETRY_SECONDS
    doubted_until = 0.0 if authenticity is None else begun + NOBODY_SECONDS
    try:
        async with asyncio.timeout(seconds):
            while True:
                in_vain = asker.loop.create_future()
                asker.connection.send(subject, question, reply)
                await asyncio.wait([answered, in_vain], timeout=patience, return_when=FIRST_COMPLETED)
                if in_vain.done():
                    if not listening and monotonic() >= max(doubted_until, asker.due_until):
                        raise NoResponders(subject)
                    await asyncio.wait([answered], timeout=wait)
                if answered.done():
                    return answered.result()
                wait, patience = wait * 2, patience * 2
    except TimeoutError:
        raise (ReplyTimeout(subject, seconds) if listening else NoResponders(subject)) from None
    finally:
        asker.connection.forget(reply)


def _counting(
    authenticity: Authenticity | None,
    subject: str,
    question: bytes,
    payload: bytes,
    counts: Callable[[Decider], bool],
) -> bytes | None:
    """The answer, if it counts."""
    if authenticity is None:
        return payload
    opened = authenticity.open(subject, question, payload)
    if opened is None:
        return None
    if not counts(opened[1]):
        authenticity.refuse(Refusal.OUTSIDE)
        return None
    return opened[0]
