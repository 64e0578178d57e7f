"""Packed policies decide, explain and search as those do that were read, and only what can be trusted is opened."""

from __future__ import annotations

import fcntl
import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authz import Request
from authz.decision import Effect
from authz.predicate import And, Equal, Path, compile_predicate
from bus.wire.messages import SearchQuery
from pdp.abac.policy import Algorithm, Policy
from pdp.abac.source import AbacSource, PackedSource
from pdp.bundle.bundle import Bundle, File
from pdp.bundle.packed_store import PackedStore
from pdp.bundle.policy_set import PolicySet
from pdp.engine.engine import Engine
from pdp.engine.index import Index, pack_index
from pdp.releases.packing_process import pack
from pdp.replica.policy_point import PolicyPoint
from pdp.replica.shadow import Judge
from tests.authz import predicates as some

PEOPLE = [f"p{n}" for n in range(60)]


def bundle(count: int = 60) -> Bundle:
    policies = [
        {
            "uid": f"{name}-{effect}",
            "effect": effect,
            "targets": {"subject_id": name, "resource_id": f"/{name}/*"},
            "rules": {"subject": {"$.level": {"condition": "Gte", "value": 3 if effect == "allow" else 9}}},
        }
        for name in PEOPLE[:count]
        for effect in ("allow", "deny")
    ]
    manifest = "name: people\nprovided: [subject.level]\n"
    entities = json.dumps({"subjects": {name: {} for name in PEOPLE}})
    return Bundle.of(
        [
            File("bundle.yaml", manifest),
            File("people.json", json.dumps(policies)),
            File("entities.json", entities),
        ]
    )


def opened(found: Bundle) -> PolicySet:
    return PolicySet.open(PolicySet.read(found).pack(found.pack()))


@given(st.lists(some.predicates, max_size=40), st.lists(some.requests, min_size=5, max_size=5))
@settings(max_examples=40)
def test_a_packed_index_finds_what_trying_all_would_find(conditions, requests):
    packed = pack_index(enumerate(conditions))
    index = Index.opened(packed, lambda number: (conditions[number], number))
    for request in requests * 2:  # what is compiled at first is used again
        found: list[int] = []
        index.search(request, found.append)
        assert set(found) == {n for n, each in enumerate(conditions) if compile_predicate(each)(request)}


@given(
    st.lists(st.tuples(some.predicates, st.sampled_from(Effect), st.integers(0, 2)), max_size=20),
    st.lists(some.requests, min_size=3, max_size=3),
    st.sampled_from(Algorithm),
)
@settings(max_examples=40)
def test_a_packed_source_decides_and_certifies_as_one_that_was_compiled(given_, requests, algorithm):
    policies = [
        Policy(f"{n}", effect, condition, priority) for n, (condition, effect, priority) in enumerate(given_)
    ]
    packed = PackedSource.of(policies, algorithm)
    one = Engine([AbacSource(policies, algorithm)], certify=True)
    other = Engine([AbacSource(policies, algorithm, packed=packed)], certify=True)
    for request in requests:
        compiled, found = one.evaluate(request), other.evaluate(request)
        assert (found.allowed, found.reason) == (compiled.allowed, compiled.reason)
        assert sorted(found.policies) == sorted(compiled.policies)
        for literal in found.certificate or ():
            assert compile_predicate(literal.predicate)(request)


async def test_opened_policies_answer_as_those_that_were_read():
    found = bundle()
    read, packed = PolicySet.read(found), opened(found)
    one, other = PolicyPoint(read, 7), PolicyPoint(packed, 7)
    request = Request.of("p3", "/p3/x", "read")
    assert await other.decide_many([request]) == await one.decide_many([request])
    assert (await other.explain(request)).decision == (await one.explain(request)).decision
    query = SearchQuery("subject", None, request.object, request.action, {}, 10, "")
    assert await other.search(query) == await one.search(query)
    assert list(packed.policies) == list(read.policies)
    assert list(packed.written()) == list(read.written())
    assert list(packed.uses()) == list(read.uses())
    assert not list(Judge(packed).divergences(request, PolicyPoint(packed).engine.evaluate(request)))


def test_a_condition_that_cannot_be_meant_is_refused_when_it_is_packed():
    nan = And((Equal(Path("subject", ("a",)), float("nan")),))
    with pytest.raises(Exception, match="NaN"):
        pack_index([(0, nan)])


def kept(folder) -> tuple[PackedStore, Bundle]:
    store, found = PackedStore(folder / "release"), bundle(3)
    assert pack(store, found.hash, found.pack()).problem == ""
    assert store.load(found.hash) is not None
    return store, found


def test_a_file_that_others_may_write_is_not_opened(tmp_path):
    store, found = kept(tmp_path)
    store.path(found.hash).chmod(0o666)
    assert store.load(found.hash) is None


def test_a_file_of_another_user_is_not_opened(tmp_path):
    store, found = kept(tmp_path)
    if os.geteuid():
        pytest.skip("only root can give files away")
    os.chown(store.path(found.hash), 12345, -1)
    assert store.load(found.hash) is None


def test_a_link_to_a_file_is_not_followed(tmp_path):
    store, found = kept(tmp_path)
    path = store.path(found.hash)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert store.load(found.hash) is None


@pytest.mark.parametrize("place", [3, 40, 90, 150, -1])
def test_a_file_in_which_a_byte_has_changed_is_not_opened(tmp_path, place):
    store, found = kept(tmp_path)
    data = bytearray(store.path(found.hash).read_bytes())
    data[place] ^= 1
    store.path(found.hash).write_bytes(data)
    assert store.load(found.hash) is None


def test_the_file_of_one_bundle_is_not_taken_for_another(tmp_path):
    store, found = kept(tmp_path)
    store.path(found.hash).rename(store.path(bundle(2).hash))
    assert store.load(bundle(2).hash) is None


def test_what_cannot_be_read_is_said_and_nothing_is_kept(tmp_path):
    store, bad = PackedStore(tmp_path / "release"), Bundle.of([File("p.json", "[")])
    assert "p.json:1:2" in pack(store, bad.hash, bad.pack()).problem
    assert not list(tmp_path.glob("*.packed"))


def test_only_the_last_bundles_are_kept(tmp_path):
    store = PackedStore(tmp_path / "release")
    for count in range(1, 6):
        found = bundle(count)
        pack(store, found.hash, found.pack())
    assert len(list(tmp_path.glob("*.packed"))) == 3
    assert store.load(found.hash) is not None


def test_one_process_at_a_time_packs_and_the_next_finds_it_done(tmp_path):
    store, found = PackedStore(tmp_path / "release"), bundle(3)
    with store.packing(), (tmp_path / "packing.lock").open("wb") as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    pack(store, found.hash, found.pack())
    made = store.path(found.hash).stat().st_mtime_ns
    pack(store, found.hash, found.pack())
    assert store.path(found.hash).stat().st_mtime_ns == made
