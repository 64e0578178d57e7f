"""A statement vouches for exactly the decisions that were signed with it."""

from __future__ import annotations

import msgspec
import pytest

from authz import Decision, Entity, Identity, Request
from authz.authority.statement import Statement, decision_hash
from authz.errors import InvalidSignature

PDP = Identity.generate()
SAID = [
    (Request.of(Entity("ann", {"roles": ["clerk"]}), f"/{n}", "read"), Decision(n % 2 == 0, epoch=7))
    for n in range(5)
]
STATEMENT, TREE = Statement.sign(PDP, "shop", 100.0, [decision_hash(*each) for each in SAID])


def test_it_vouches_for_each_decision_it_was_made_of():
    STATEMENT.verify()
    assert all(STATEMENT.vouches(*said, n, TREE.proof(n)) for n, said in enumerate(SAID))


def test_it_vouches_for_no_other_decision_request_or_place():
    request, decision = SAID[2]
    assert not STATEMENT.vouches(request, msgspec.structs.replace(decision, allowed=False), 2, TREE.proof(2))
    assert not STATEMENT.vouches(request, msgspec.structs.replace(decision, epoch=8), 2, TREE.proof(2))
    assert not STATEMENT.vouches(SAID[4][0], decision, 2, TREE.proof(2))
    assert not STATEMENT.vouches(request, decision, 3, TREE.proof(2))


@pytest.mark.parametrize(
    "altered",
    [
        {"domain": "bank"},
        {"at": 101.0},
        {"count": 4},
        {"root": bytes(32)},
        {"signature": bytes(64)},
        {"signer": Identity.generate().public.raw},
        {"signer": b"short"},
    ],
)
def test_whatever_is_altered_the_signature_no_longer_holds(altered):
    with pytest.raises(InvalidSignature):
        msgspec.structs.replace(STATEMENT, **altered).verify()


def test_equal_decisions_have_equal_hashes_however_their_attributes_are_ordered():
    one = Request.of(Entity("ann", {"a": 1, "b": 2}), "/x", "read")
    two = Request.of(Entity("ann", {"b": 2, "a": 1}), "/x", "read")
    assert decision_hash(one, Decision(True)) == decision_hash(two, Decision(True))
