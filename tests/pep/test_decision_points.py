"""Engine, policy point, asker and cache are one kind of thing: each decides, and each can wrap another."""

from __future__ import annotations

import pytest

from authz import DecisionPoint, InvalidRequest, Request
from pdp.replica import PolicyPoint
from pep.local import LocalAsker, read_policies
from pep.secondary import Secondary
from sdp_cache import LeaseRules, SecondaryPoint

POLICIES = """
- {uid: read, effect: allow, targets: {subject_id: alice, action_id: read}, rules: {}}
"""
ALLOWED, DENIED = Request.of("alice", "/doc", "read"), Request.of("bob", "/doc", "read")


class Counting:
    """A link that counts what passes through it."""

    def __init__(self, inner: LocalAsker) -> None:
        self.usual, self.loop, self.terms = inner.usual, inner.loop, inner.terms
        self.search, self.explain = inner.search, inner.explain
        self._inner = inner
        self.passed = 0

    def decide(self, request, terms=None):
        self.passed += 1
        return self._inner.decide(request, terms)


@pytest.fixture
async def chain():
    cache = SecondaryPoint(rules=LeaseRules(60.0))
    asker = LocalAsker(cache)
    asker.release(read_policies(POLICIES))
    return cache, Counting(asker), asker


async def test_every_link_decides_alike(chain):
    cache, counting, asker = chain
    policies = read_policies(POLICIES)
    links: list[DecisionPoint] = [
        policies.engine(),
        PolicyPoint(policies),
        asker,
        counting,
        Secondary(counting, cache),
    ]
    for link in links:
        assert (await link.decide(ALLOWED)).allowed
        assert not (await link.decide(DENIED)).allowed


async def test_a_cache_asks_what_it_wraps_once(chain):
    cache, counting, _ = chain
    secondary = Secondary(counting, cache)
    first, second = await secondary.decide(ALLOWED), await secondary.decide(ALLOWED)
    assert (first.allowed, first.inferred) == (True, None)
    assert (second.allowed, second.inferred.method) == (True, "precise")
    assert counting.passed == 1


async def test_what_cannot_be_asked_is_refused_by_the_link_that_would_ask_it(chain):
    cache, counting, _ = chain
    with pytest.raises(InvalidRequest):
        await Secondary(counting, cache).decide(Request.of("", "/doc", "read"))
