"""What PDPs decide is signed if somebody wants it, and can be learned from by others over a real server."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from authz import Decision, Entity, Identity, InvalidRequest, Reason, Request
from authz.authority.statement import Statement, decision_hash
from authz.crypto.merkle import Tree
from bus import Connection, Scope
from bus.wire.envelope import pack
from bus.wire.shared_decisions import SharedDecisions, TopicRequest, unpack_shared_decisions
from bus.wire.subjects import wishes
from bus.wire.topics import InvalidTopic
from pdp.bundle.bundle_store import BundleCache
from pdp.replica.policy_follower import Follower, Following
from pdp.replica.service import Replica
from pdp.replica.signing_service import DecisionSigner
from pep import UNVERIFIED, Enforcer
from sdp_cache.point.learning import Refusal
from tests.pep.recycling_world import ANN, World, only, world
from tests.waiting import eventually
from tests.warrants import warrant

PDP = Identity.generate()
READ = Request.of("bob", "/sales/q1", "read")
ALLOW = Decision(True)


@contextlib.asynccontextmanager
async def teaching(
    url: str, **options
) -> AsyncIterator[tuple[DecisionSigner, list[SharedDecisions], Connection]]:
    """A signer, and everything it teaches."""
    lessons: list[SharedDecisions] = []
    async with (
        Connection(url) as bus,
        Connection(url) as other,
        DecisionSigner(bus, "default", PDP, **options) as signer,
    ):
        await other.listen("af.said.>", lambda s, r, data, h: lessons.append(unpack_shared_decisions(data)))
        await bus.flush()  # the server knows what the signer listens to
        await other.flush()
        yield signer, lessons, other


async def wish(signer: DecisionSigner, bus: Connection, *topics: str) -> None:
    bus.send(wishes("default"), pack(TopicRequest(list(topics))))
    await eventually(lambda: signer._topics)


async def test_nothing_is_signed_that_nobody_wants(server):
    async with teaching(server.url) as (signer, lessons, bus):
        signer.observe([READ], [ALLOW])
        await wish(signer, bus, "all")
        signer.observe([Request.of("ann", "/x", "read")], [ALLOW])
        await eventually(lambda: lessons)
        assert [each.request.subject.id for each in lessons[0].decisions] == ["ann"]
        assert signer.signed == 1


async def test_what_is_wished_for_is_published_with_its_proof_and_nothing_else(server):
    async with teaching(server.url) as (signer, lessons, bus):
        await wish(signer, bus, "prefix:/sales", "nonsense", "roles:clerk")
        clerk = Request.of(Entity("ann", {"roles": ["clerk"]}), "/x", "read")
        failed = Decision(False, Reason.TIMEOUT)
        signer.observe([READ, clerk, Request.of("a", "/hr", "read")], [ALLOW] * 3)
        signer.observe([Request.of("eve", "/sales/q2", "read")], [failed])
        await eventually(lambda: len(lessons) == 2)
        for each in lessons:
            each.statement.verify()
            assert each.statement.signer == PDP.public.raw
            assert all(
                each.statement.vouches(t.request, t.decision, t.index, t.proof) for t in each.decisions
            )
        assert {t.request.object.id for each in lessons for t in each.decisions} == {"/sales/q1", "/x"}
        assert signer.signed == 2


async def test_a_wish_that_is_not_repeated_is_forgotten(server, monkeypatch):
    monkeypatch.setattr("pdp.replica.signing_service.WISH_TTL", 0.05)
    async with teaching(server.url) as (signer, _, bus):
        await wish(signer, bus, "all")
        await eventually(lambda: not signer._topics)
        signer.observe([READ], [ALLOW])
        assert not signer._waiting


async def test_with_somebody_who_keeps_them_all_decisions_are_signed_at_once(server):
    kept: list[tuple[Statement, tuple[bytes, ...]]] = []
    async with teaching(server.url, keep=lambda *each: kept.append(each)) as (signer, lessons, _):
        several = [Request.of("bob", f"/{n}", "read") for n in range(500)]
        signer.observe(several, [ALLOW] * 500)
        await eventually(lambda: signer.signed == 500)
        assert not lessons
    leaves = [leaf for _, leaves in kept for leaf in leaves]
    assert leaves == [decision_hash(each, ALLOW) for each in several]
    assert len(kept) < 5
    for statement, leaves in kept:
        statement.verify()
        assert Tree(leaves).root == statement.root


async def test_what_comes_too_fast_is_counted_instead(server):
    async with teaching(server.url, keep=lambda *each: None, limit=10) as (signer, _, _):
        for _ in range(3):
            signer.observe([READ] * 5, [ALLOW] * 5)
        assert signer.dropped == 5
        await eventually(lambda: signer.signed == 10)


async def test_whoever_leaves_signs_what_is_left(server):
    kept: list[tuple[Statement, tuple[bytes, ...]]] = []
    async with teaching(server.url, keep=lambda *each: kept.append(each)) as (signer, _, _):
        signer.observe([READ] * 100, [ALLOW] * 100)
    assert sum(len(leaves) for _, leaves in kept) == 100


@contextlib.asynccontextmanager
async def teaching_replica(here: World, folder: Path) -> AsyncIterator[Follower]:
    """A replica that follows the releases, and teaches what it decides."""
    credentials = warrant(ANN, "/sales/*", PDP)
    following = Following("default", {ANN.public}, "pdp-1", BundleCache(folder / "release"))
    build = lambda policies, epoch: policies.engine(epoch, certify=True)  # noqa: E731
    async with (
        Connection(here.server.url) as bus,
        Follower(bus, following, build) as follower,
        DecisionSigner(bus, "default", PDP) as signer,
        Replica(
            bus,
            here._counting(follower),
            [Scope.parse("domain:default")],
            authority=credentials,
            observe=signer.observe,
        ),
    ):
        yield follower


async def test_one_pep_learns_from_what_another_was_answered_and_not_from_what_the_pdp_may_not_decide(
    tmp_path,
):
    async with world(tmp_path) as here:
        released = await here.push(only("bob"))
        async with (
            teaching_replica(here, tmp_path) as replica,
            here.pep(name="asks") as asks,
            here.pep(name="learns", learn=["prefix:/sales", "prefix:/hr"]) as learns,
        ):
            await here.applied(released, replica, asks, learns)
            learner = learns.secondary.learner
            while not learner.learned:
                assert (await asks.asker.decide(READ)).allowed
            await asks.check(Request.of("bob", "/hr/pay", "read"), deadline=0.1)
            await eventually(lambda: set(learner.refused) == {Refusal.OUTSIDE})
            before = here.asked
            decision = await learns.check(READ)
            assert (decision.allowed, decision.inferred.method, here.asked) == (True, "precise", before)
            assert decision.inferred.answers[0].startswith(f"{PDP.public}/")
            second = await here.push(only("eve"))
            await here.applied(second, replica, learns)
            assert not (await learns.check(READ)).allowed


async def test_learning_needs_somebody_to_trust(server):
    with pytest.raises(InvalidRequest, match="`learn` needs `trust`"):
        async with Enforcer.connect(server.url, trust=UNVERIFIED, learn=["all"]):
            pass
    with pytest.raises(InvalidTopic):
        async with Enforcer.connect(server.url, trust=[ANN.public], learn=["nonsense"]):
            pass
