"""The tree is RFC 6962's, and a proof holds for one leaf in one place under one root."""

from __future__ import annotations

import hashlib

from hypothesis import assume, given
from hypothesis import strategies as st

from authz.crypto.merkle import Tree, includes, leaf_hash

leaves = st.lists(st.binary(max_size=3), min_size=1, max_size=40)


def root(data: list[bytes]) -> bytes:
    """The definition in RFC 6962, section 2.1, word for word."""
    if not data:
        return hashlib.sha256(b"").digest()
    if len(data) == 1:
        return hashlib.sha256(b"\0" + data[0]).digest()
    split = 1
    while split * 2 < len(data):
        split *= 2
    return hashlib.sha256(b"\1" + root(data[:split]) + root(data[split:])).digest()


def tree(data: list[bytes]) -> Tree:
    return Tree(list(map(leaf_hash, data)))


@given(leaves)
def test_the_root_is_the_one_of_the_rfc(data):
    assert tree(data).root == root(data)


def test_the_root_of_nothing_is_the_one_of_the_rfc():
    assert tree([]).root == root([])
    assert not includes(root([]), 0, 0, leaf_hash(b""), [])


@given(leaves, st.data())
def test_every_leaf_has_a_proof(data, draw):
    index = draw.draw(st.integers(0, len(data) - 1))
    proof = tree(data).proof(index)
    assert includes(root(data), len(data), index, leaf_hash(data[index]), proof)
    assert len(proof) <= max(len(data) - 1, 1).bit_length()


@given(leaves, st.data())
def test_a_proof_holds_for_no_other_leaf_and_no_other_place(data, draw):
    index = draw.draw(st.integers(0, len(data) - 1))
    proof = tree(data).proof(index)
    other = draw.draw(st.binary(max_size=3))
    assume(other != data[index])
    assert not includes(root(data), len(data), index, leaf_hash(other), proof)
    elsewhere = draw.draw(st.integers(-2, len(data) + 2))
    assume(elsewhere not in range(len(data)) or data[elsewhere] != data[index])
    assert not includes(root(data), len(data), elsewhere, leaf_hash(data[index]), proof)


@given(leaves, st.data())
def test_a_proof_must_have_the_right_length(data, draw):
    index = draw.draw(st.integers(0, len(data) - 1))
    proof, leaf = tree(data).proof(index), leaf_hash(data[index])
    assert not includes(root(data), len(data), index, leaf, [*proof, bytes(32)])
    if proof:
        assert not includes(root(data), len(data), index, leaf, proof[:-1])
        assert not includes(root(data), len(data), index, leaf, [proof[0][:-1], *proof[1:]])


def test_an_inner_node_passes_for_no_statement():
    data = [b"a", b"b", b"c", b"d"]
    inner = leaf_hash(b"a") + leaf_hash(b"b")
    top = root(data)
    assert not includes(
        top, 2, 0, leaf_hash(inner), [hashlib.sha256(b"\1" + leaf_hash(b"c") + leaf_hash(b"d")).digest()]
    )
