"""Explanations, searches and scopes over the bus count as decisions do: from whom may decide what they are about."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from time import time

import pytest

from authz import Decision, Entity, Identity, Request
from authz.explanation import Explanation
from authz.spki import Capability, Certificate, Validity, parse_authority
from bus import Connection, NatsServer, NoResponders, ReplyTimeout
from bus import Scope as BusScope
from bus.wire import (
    MAX_BYTES,
    Explained,
    Mode,
    SearchPage,
    SearchQuery,
    interest,
    pack,
    subjects,
)
from pdp.bundle import Entities
from pdp.replica import (
    AnswerAuthority,
    PolicyPoint,
    Replica,
    serve_explanations,
    serve_scopes,
    serve_search,
)
from pep import UNVERIFIED, Enforcer
from pep.errors import ExplanationRefused, SearchRefused
from pep.local import read_policies
from pep.trust.authenticity import Refusal
from tests.waiting import eventually

NOTES = """
- uid: own-notes
  effect: allow
  targets: {resource_id: /notes/*, action_id: read}
  rules: {resource: {$.owner: {condition: EqualsAttribute, ace: subject, path: id}}}
"""
KNOWN = Entities(
    subjects={each: Entity(each) for each in ("ann", "bob")},
    objects={
        "/notes/1": Entity("/notes/1", {"owner": "ann"}),
        "/notes/2": Entity("/notes/2", {"owner": "bob"}),
    },
)
READ = Request.of("ann", Entity("/notes/1", {"owner": "ann"}), "read")
SEEK = SearchQuery("object", Entity("ann"), None, Entity("read"), under="/notes/")
DOMAIN = [BusScope.parse("domain:default")]
ROOT = Identity.generate()


def _right(holder: Identity, objects: str) -> Certificate:
    authority = parse_authority(f"object: {objects}\naction: decide")
    validity = Validity(int(time()) - 60, int(time()) + 3600)
    return Capability(ROOT.public, holder.public, False, authority, validity).sign(ROOT)


@contextlib.asynccontextmanager
async def answering(server: NatsServer, objects: str = "*") -> AsyncIterator[Connection]:
    """A replica that may decide those objects, and answers every query."""
    holder = Identity.generate()
    authority = AnswerAuthority(holder, [_right(holder, objects)], time())
    point = PolicyPoint(read_policies(NOTES), 3, entities=KNOWN)
    async with (
        Connection(server.url) as bus,
        Replica(bus, point, DOMAIN, authority=authority),
        serve_explanations(bus, point.explain, DOMAIN, authority),
        serve_search(bus, point.search, DOMAIN, authority),
        serve_scopes(bus, point.scope, DOMAIN, authority),
    ):
        await bus.flush()
        yield bus


@pytest.fixture
async def pep(server: NatsServer) -> AsyncIterator[Enforcer]:
    async with Enforcer.connect(server.url, trust=[ROOT.public], recycling=None) as pep:
        yield pep


@contextlib.asynccontextmanager
async def lying(server: NatsServer, subject: str, lie: bytes) -> AsyncIterator[asyncio.Event]:
    """Somebody who answers everything on a subject at once, and whether it was asked."""
    asked = asyncio.Event()
    async with Connection(server.url) as mallory:

        def answer(subject: str, reply: str, payload: bytes, headers: bytes) -> None:
            mallory.send(reply, lie)
            asked.set()

        await mallory.listen(subject, answer)
        await mallory.flush()
        yield asked


async def test_a_replica_that_may_decide_is_believed(server: NatsServer, pep: Enforcer):
    async with answering(server):
        why = await pep.explain(READ, deadline=10)
        assert why.decision.allowed
        assert [each.policy for each in why.policies] == ["own-notes"]
        assert (await pep.search(SEEK)).found == ("/notes/1",)
        assert (await pep.search(SearchQuery("subject", None, READ.object, READ.action))).found == ("ann",)
        assert str(await pep.scope("ann", "read", "/notes/", deadline=10)) == 'object.owner == "ann"'
        with pytest.raises(SearchRefused, match="give"):
            await pep.search(SearchQuery("subject"))


async def test_who_believes_everybody_is_answered_too(server: NatsServer):
    async with answering(server), Enforcer.connect(server.url, trust=UNVERIFIED) as pep:
        assert (await pep.explain(READ, deadline=10)).decision.allowed
        assert (await pep.search(SEEK)).found == ("/notes/1",)


async def test_an_explanation_of_somebody_nobody_trusts_counts_for_nothing(server: NatsServer, pep: Enforcer):
    lie = pack(Explained(Explanation(str(READ), Decision(True), (), 0)))
    async with lying(server, interest(Mode.EXPLAIN, DOMAIN[0]), lie) as asked:
        with pytest.raises(ReplyTimeout):
            await pep.explain("mallory", "/notes/1", "read", deadline=0.3)
        assert asked.is_set()
        assert pep.asker.authenticity.refused[Refusal.UNAUTHENTICATED]
        async with answering(server):
            assert not (await pep.explain("mallory", "/notes/1", "read", deadline=10)).decision.allowed


async def test_what_somebody_nobody_trusts_says_was_found_is_not(server: NatsServer, pep: Enforcer):
    async with lying(server, subjects.search("default"), pack(SearchPage(("/notes/2",), epoch=3))) as asked:
        with pytest.raises(ReplyTimeout):
            await pep.search(SEEK, deadline=0.3)
        assert asked.is_set()
        async with answering(server):
            assert (await pep.search(SEEK)).found == ("/notes/1",)


@pytest.mark.parametrize("query", ["explain", "search objects", "search subjects", "scope"])
async def test_a_replica_is_not_believed_about_what_it_may_not_decide(
    server: NatsServer, pep: Enforcer, query: str
):
    queries = {
        "explain": lambda: pep.explain(READ, deadline=0.5),
        "search objects": lambda: pep.search(SEEK, deadline=0.5),
        "search subjects": lambda: pep.search(
            SearchQuery("subject", None, READ.object, READ.action), deadline=0.5
        ),
        "scope": lambda: pep.scope("ann", "read", "/notes/", deadline=0.5),
    }
    async with answering(server, "/other/*"):
        with pytest.raises(ReplyTimeout):
            await queries[query]()
        assert pep.asker.authenticity.refused[Refusal.OUTSIDE]


async def test_a_beginning_of_names_is_not_a_folder(server: NatsServer, pep: Enforcer):
    """`/note` begins `/notes/1` too, which is not below `/note/`."""
    async with answering(server, "/note/*"):
        with pytest.raises(ReplyTimeout):
            await pep.scope("ann", "read", "/note", deadline=0.5)
        assert pep.asker.authenticity.refused[Refusal.OUTSIDE]
        await pep.scope("ann", "read", "/note/", deadline=10)


async def test_what_fails_in_a_replica_or_is_too_large_to_send_is_said_at_once(server: NatsServer):
    async def fails(request: Request) -> Explanation:
        raise RuntimeError("a bug")

    async def finds_much(query: SearchQuery) -> SearchPage:
        return SearchPage(("/notes/" + "x" * MAX_BYTES,))

    async with (
        Connection(server.url) as bus,
        serve_explanations(bus, fails, DOMAIN, None),
        serve_search(bus, finds_much, DOMAIN, None),
        Enforcer.connect(server.url, trust=UNVERIFIED) as pep,
    ):
        await bus.flush()
        with pytest.raises(ExplanationRefused, match="the PDP failed on this explanation; see its log"):
            await pep.explain(READ, deadline=10)
        with pytest.raises(SearchRefused, match="bytes; at most"):
            await pep.search(SEEK, deadline=10)


async def test_where_nobody_listens_it_is_said(server: NatsServer, pep: Enforcer):
    with pytest.raises(NoResponders):
        await pep.search(SEEK, deadline=10)


async def test_after_a_reconnect_replicas_are_waited_for(own_server: NatsServer, monkeypatch):
    monkeypatch.setattr("pep.asking.asker.RECONNECT_GRACE", 3600.0)
    async with Enforcer.connect(own_server.url, trust=UNVERIFIED) as pep:
        await own_server.stop(signal.SIGKILL)
        await eventually(lambda: not pep.asker.connection.ready)
        await own_server.start()
        await eventually(lambda: pep.asker.connection.ready)
        asked = asyncio.create_task(pep.explain(READ, deadline=60))
        await eventually(lambda: pep.asker.sent)
        await pep.asker.connection.flush()
        async with answering(own_server):
            assert (await asked).decision.allowed
