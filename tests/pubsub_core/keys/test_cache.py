"""The plaintext cache opens for whoever holds every key its content needs, on its own link, and for nobody else."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubsub_core.keys import CannotOpen, DataKey, KeyMissing, KeyRing
from pubsub_core.keys.cache import Cached, CacheOpener, CacheSealer

A, B = "a" * 32, "b" * 32


def ring_of(*groups: str, epochs=((1, 0.0),)) -> KeyRing:
    ring = KeyRing()
    for group in groups:
        for epoch, start in epochs:
            ring.add(DataKey(group, epoch, start, bytes.fromhex(group) + bytes([epoch]) * 16))
    return ring


@given(st.lists(st.binary(), max_size=4))
def test_batches_open_for_whoever_holds_all_keys(batches):
    sealer, opener = CacheSealer(ring_of(A, B), [A, B]), CacheOpener(ring_of(A, B))
    for batch in batches:
        cached = msgspec.msgpack.decode(
            msgspec.msgpack.encode(sealer.seal(1000.0, b"x>y", batch)), type=Cached
        )
        assert opener.open(cached, b"x>y") == batch


@pytest.mark.parametrize("held", [(), (A,), (B,)])
def test_whoever_lacks_a_key_opens_nothing(held):
    cached = CacheSealer(ring_of(A, B), [A, B]).seal(1000.0, b"x>y", b"plain")
    with pytest.raises(CannotOpen):
        CacheOpener(ring_of(*held)).open(cached, b"x>y")
    claims = msgspec.structs.replace(cached, epochs=tuple(each for each in cached.epochs if each[0] in held))
    with pytest.raises(CannotOpen):
        CacheOpener(ring_of(*held)).open(claims, b"x>y")


def test_a_batch_opens_on_its_own_link_only():
    cached = CacheSealer(ring_of(A), [A]).seal(1000.0, b"x>y", b"plain")
    with pytest.raises(CannotOpen):
        CacheOpener(ring_of(A)).open(cached, b"x>z")


def test_plaintext_does_not_show_in_what_travels():
    cached = CacheSealer(ring_of(A), [A]).seal(1000.0, b"", b"AE05 XYZ")
    assert b"AE05" not in msgspec.msgpack.encode(cached)


def test_no_number_is_used_twice_under_a_salt():
    ring = ring_of(A, epochs=((1, 0.0), (2, 1000.0)))
    sealer = CacheSealer(ring, [A])
    seen = {(each.salt, each.number) for each in (sealer.seal(at, b"", b"") for at in (999.0, 1000.0, 999.0))}
    assert len(seen) == 3


def test_what_is_not_held_cannot_be_sealed_with():
    with pytest.raises(KeyMissing):
        CacheSealer(ring_of(A), [A, B]).seal(1000.0, b"", b"")


def test_a_batch_of_an_epoch_that_is_over_does_not_open():
    ring = ring_of(A, epochs=((1, 0.0), (2, 1000.0)))
    cached = CacheSealer(ring, [A]).seal(999.0, b"", b"plain")
    assert CacheOpener(ring).open(cached, b"") == b"plain"
    with pytest.raises(CannotOpen):
        CacheOpener(ring).open(msgspec.structs.replace(cached, time=1010.0), b"")


def test_nothing_made_of_a_key_that_was_destroyed_is_kept():
    ring = ring_of(A, epochs=((1, 0.0), (2, 1000.0)))
    sealer, opener = CacheSealer(ring, [A]), CacheOpener(ring)
    for at in (999.0, 1000.0):
        opener.open(sealer.seal(at, b"", b"plain"), b"")
    ring.expire(2000.0, 600.0)
    opener.open(sealer.seal(2000.0, b"", b"plain"), b"")
    assert {epoch for _, epochs in opener._ready for _, epoch in epochs} == {2}
