"""What others were answered is learned only if a PDP that may decide it has signed it, lately and for this domain."""

from __future__ import annotations

import msgspec
import pytest

from authz import Basis, Decision, Entity, Identity, Reason, Request
from authz.authority.deciders import Deciders
from authz.authority.introduction import Introduction
from authz.authority.statement import Statement, decision_hash
from authz.change import Heartbeat
from authz.predicate import Equal, Literal, Path
from authz.spki import Capability, Validity, parse_authority
from bus.wire.shared_decisions import SharedDecision, SharedDecisions
from bus.wire.topics import InvalidTopic, Topic
from sdp_cache import SecondaryPoint
from sdp_cache.point.learning import Learner, Refusal

ROOT, PDP, EVE = (Identity.generate() for _ in range(3))
NOW = 100.0
SALES = Request.of(Entity("ann", {"roles": ["clerk", "nurse"]}), "/sales/q1", "read")
OTHER = Request.of("bob", "/sales/q2", "read")
HR = Request.of("ann", "/hr/pay", "read")
ALLOW = Decision(True, epoch=7)


@pytest.fixture
def deciders() -> Deciders:
    authority = parse_authority("object: /sales/*\naction: decide")
    chain = Capability(ROOT.public, PDP.public, False, authority, Validity()).sign(ROOT)
    deciders = Deciders([ROOT.public])
    deciders.introduce(Introduction.of(PDP, (chain,), NOW).encode(), NOW)
    return deciders


@pytest.fixture
def point() -> SecondaryPoint:
    point = SecondaryPoint()
    point.restart(1, 7)
    point.hear(Heartbeat(7, 1, NOW), NOW)
    return point


@pytest.fixture
def learner(point, deciders) -> Learner:
    return Learner(point, deciders, "default", [Topic.parse("all", "default")])


def lesson(
    *said: tuple[Request, Decision], by: Identity = PDP, domain: str = "default", at: float = NOW
) -> SharedDecisions:
    statement, tree = Statement.sign(by, domain, at, [decision_hash(*each) for each in said])
    return SharedDecisions(
        statement, [SharedDecision(*each, n, tree.proof(n)) for n, each in enumerate(said)]
    )


def test_a_certificate_that_cannot_be_meant_stops_no_lesson(learner, point):
    nameless = Decision(True, epoch=7, certificate=(Literal(Equal(Path("context"), "x")),))
    learner.hear(lesson((SALES, nameless), (OTHER, ALLOW)), NOW)
    assert point.infer(OTHER, NOW).allowed
    assert point.infer(SALES, NOW).inferred.method == "precise"


def test_a_signed_answer_is_recycled_and_named_as_the_source(learner, point):
    learner.hear(lesson((SALES, ALLOW)), NOW)
    decision = point.infer(SALES, NOW)
    assert decision.allowed
    assert decision.inferred.method == "precise"
    (source,) = decision.inferred.answers
    assert source.startswith(f"{PDP.public}/")
    assert source.endswith("/0")


def test_further_answers_follow_from_it(learner, point):
    learner.hear(lesson((SALES, msgspec.structs.replace(ALLOW, basis=Basis.ROLES))), NOW)
    other = Request.of(Entity("bob", {"roles": ["nurse", "clerk"]}), "/sales/q1", "read")
    decision = point.infer(other, NOW)
    assert (decision.allowed, decision.inferred.method) == (True, "saam-rbac")
    assert decision.inferred.answers[0].startswith(f"{PDP.public}/")


@pytest.mark.parametrize(
    ("heard", "refusal"),
    [
        (lesson((SALES, ALLOW), by=EVE), Refusal.UNKNOWN),
        (lesson((HR, ALLOW)), Refusal.OUTSIDE),
        (lesson((SALES, ALLOW), domain="bank"), Refusal.FOREIGN),
        (lesson((SALES, ALLOW), at=NOW - 31.0), Refusal.OLD),
        (lesson((SALES, ALLOW), at=NOW + 31.0), Refusal.OLD),
        (lesson((SALES, ALLOW), at=float("nan")), Refusal.OLD),
        (lesson((Request.of("ann", "/sales/../hr", "read"), ALLOW)), Refusal.INVALID),
    ],
)
def test_what_does_not_count_is_not_learned(learner, point, heard, refusal):
    learner.hear(heard, NOW)
    assert learner.refused == {refusal: 1}
    assert learner.learned == 0
    assert point.infer(SALES, NOW) is None


def test_a_decision_that_was_put_into_a_true_statement_is_not_learned(learner, point):
    true = lesson((SALES, Decision(False, Reason.NO_POLICY, epoch=7)))
    (taught,) = true.decisions
    learner.hear(SharedDecisions(true.statement, [msgspec.structs.replace(taught, decision=ALLOW)]), NOW)
    assert (learner.refused, point.infer(SALES, NOW)) == ({Refusal.FORGED: 1}, None)


def test_a_statement_that_was_altered_is_not_believed_even_after_the_true_one(learner, point):
    learner.hear(lesson((Request.of("ann", "/sales/q2", "read"), ALLOW)), NOW)
    own = lesson((SALES, ALLOW), by=EVE)
    forged = msgspec.structs.replace(own.statement, signer=PDP.public.raw)
    learner.hear(SharedDecisions(forged, own.decisions), NOW)
    assert (learner.refused, point.infer(SALES, NOW)) == ({Refusal.FORGED: 1}, None)


@pytest.mark.parametrize("epoch", [6, 8])
def test_what_was_decided_under_another_epoch_is_not_kept(learner, point, epoch):
    learner.hear(lesson((SALES, msgspec.structs.replace(ALLOW, epoch=epoch))), NOW)
    assert point.infer(SALES, NOW) is None


def test_after_the_lease_nothing_learned_is_served(learner, point):
    learner.hear(lesson((SALES, ALLOW)), NOW)
    assert point.infer(SALES, NOW + 11.0) is None


def test_authority_that_has_ended_teaches_nothing(point):
    authority = parse_authority("object: *\naction: decide")
    chain = Capability(ROOT.public, PDP.public, False, authority, Validity(0, 101)).sign(ROOT)
    deciders = Deciders([ROOT.public])
    deciders.introduce(Introduction.of(PDP, (chain,), NOW).encode(), NOW)
    learner = Learner(point, deciders, "default", [Topic.parse("all", "default")])
    learner.hear(lesson((SALES, ALLOW), at=101.0), 101.0)
    assert learner.refused == {Refusal.UNKNOWN: 1}


@pytest.mark.parametrize(
    ("topic", "holds"),
    [
        ("all", True),
        ("prefix:/sales", True),
        ("prefix:/sal", False),
        ("prefix:/", True),
        ("object:/sales/q1", True),
        ("object:/sales", False),
        ("roles:nurse,clerk", True),
        ("roles:nurse", False),
    ],
)
def test_only_what_was_asked_for_is_learned(point, deciders, topic, holds):
    learner = Learner(point, deciders, "default", [Topic.parse(topic, "default")])
    learner.hear(lesson((SALES, ALLOW)), NOW)
    assert (learner.learned, learner.refused) == ((1, {}) if holds else (0, {Refusal.FOREIGN: 1}))


@pytest.mark.parametrize(
    "text", ["", "everything", "domain:shop", "broadcast", "roles:", "tuple:a,b,c", "prefix@x:/a"]
)
def test_what_is_no_topic_is_refused(text):
    with pytest.raises(InvalidTopic, match="is not a topic"):
        Topic.parse(text, "default")
