import pytest
from msgspec.structs import replace

from authz import Decision, Entity, Inference, Reason, Request
from authz.change import PolicyChange, Touched
from authz.predicate import Equal, Path
from sdp_cache.inference.precise import PreciseCache
from sdp_cache.validity.change_log import ChangeLog

ASKED = Request.of("alice", "/o", "read")
ALLOW = Decision(True, policies=("p",), epoch=3)


def precise(epoch=3, size=10):
    log = ChangeLog(epoch)
    return log, PreciseCache(log, size)


def test_the_same_request_gets_the_same_decision_marked_as_recycled():
    _, cache = precise()
    cache.learn(ASKED, ALLOW, "answer 1")
    found = cache.infer(Request.of("alice", "/o", "read"), 0.0)
    assert found == Decision(True, policies=("p",), epoch=3, inferred=Inference("precise", ("answer 1",)))


def test_a_denial_is_recycled_too():
    _, cache = precise()
    cache.learn(ASKED, Decision(False, Reason.NO_POLICY, epoch=3), "1")
    assert not cache.infer(ASKED, 0.0).allowed


@pytest.mark.parametrize(
    "other",
    [
        Request.of("bob", "/o", "read"),
        Request.of("alice", "/p", "read"),
        Request.of("alice", "/o", "write"),
        Request.of(Entity("alice", {"age": 1}), "/o", "read"),
        Request.of("alice", Entity("/o", {"age": 1}), "read"),
        Request.of("alice", "/o", Entity("read", {"age": 1})),
        Request.of("alice", "/o", "read", {"age": 1}),
    ],
    ids=str,
)
def test_a_request_that_differs_in_anything_is_another(other):
    _, cache = precise()
    cache.learn(ASKED, ALLOW, "1")
    assert cache.infer(other, 0.0) is None


def test_nothing_is_served_from_the_instant_it_expires():
    _, cache = precise()
    cache.learn(ASKED, Decision(True, epoch=3, expires=10.0), "1")
    assert cache.infer(ASKED, 9.9) is not None
    assert cache.infer(ASKED, 10.0) is None


def test_a_change_drops_what_it_touches_and_the_rest_is_served_under_the_new_epoch():
    log, cache = precise()
    other = Request.of("bob", "/o", "read")
    cache.learn(ASKED, ALLOW, "1")
    cache.learn(other, ALLOW, "2")
    log.apply(PolicyChange(4, 3, (Touched(Equal(Path("subject"), "alice")),)))
    assert cache.infer(ASKED, 0.0) is None
    assert len(cache) == 1
    assert cache.infer(other, 0.0).epoch == 4
    log.apply(PolicyChange(5, 4))
    assert cache.infer(ASKED, 0.0) is None
    assert cache.infer(other, 0.0).epoch == 5


def test_it_holds_no_more_than_its_size_and_keeps_what_is_used():
    _, cache = precise(size=3)
    for n in range(50):
        cache.learn(Request.of(f"s{n}", "/o", "read"), ALLOW, "x")
        assert cache.infer(Request.of("s0", "/o", "read"), 0.0) is not None
    assert len(cache) == 3


def test_an_answer_that_ends_at_no_time_that_can_be_told_is_not_served():
    _, cache = precise()
    cache.learn(ASKED, Decision(True, epoch=3, expires=float("nan")), "1")
    assert cache.infer(ASKED, 0.0) is None


def test_whoever_alters_an_obligation_alters_it_for_nobody_else():
    _, cache = precise()
    given = Decision(True, epoch=3, obligations=({"log": {"to": ["audit"]}},))
    cache.learn(ASKED, given, "1")
    given.obligations[0]["log"] = "nowhere"
    for _ in range(2):
        (duty,) = cache.infer(ASKED, 0.0).obligations
        assert duty == {"log": {"to": ["audit"]}}
        duty["log"]["to"].append("eve")


@pytest.mark.parametrize(
    ("request_", "decision"),
    [
        (lambda n: Request.of(Entity(f"s{n}", {"x": "y" * 10_000}), "/o", "read"), ALLOW),
        (lambda n: Request.of(f"s{n}", "/o", "read"), replace(ALLOW, detail="y" * 10_000)),
        (lambda n: Request.of(f"s{n}", "/o", "read"), replace(ALLOW, policies=tuple(map(str, range(999))))),
        (lambda n: Request.of(f"s{n}", "/o", "read"), replace(ALLOW, obligations=({"x": "y" * 10_000},))),
    ],
    ids=["attributes", "detail", "policies", "obligations"],
)
def test_what_is_large_takes_the_place_of_several(request_, decision):
    _, cache = precise(size=100)
    for n in range(100):
        cache.learn(request_(n), decision, "x")
    assert 1 <= len(cache) <= 10
    assert cache.infer(request_(99), 0.0) is not None


def test_what_is_larger_than_everything_may_be_is_not_kept_nor_what_it_would_replace():
    _, cache = precise(size=5)
    cache.learn(ASKED, ALLOW, "1")
    cache.learn(ASKED, replace(ALLOW, detail="y" * 10_000), "2")
    assert len(cache) == 0
