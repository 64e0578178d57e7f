import dataclasses
import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authz import Identity
from sdp_cache.snapshots.snapshot import (
    MAGIC,
    PREAMBLE,
    SIGNATURE_BYTES,
    Header,
    Origin,
    Ruling,
    Snapshot,
    SnapshotRefused,
    Tier,
    message,
    padded,
)
from sdp_cache.snapshots.store import open_snapshot, save_snapshot
from sdp_cache.snapshots.writer import Precomputation, write_snapshot

SPARK = Identity.from_seed(bytes(32))
TRUSTED = [SPARK.public]

ids = st.lists(st.text(max_size=6), unique=True, max_size=6)

ORIGIN = Origin("shop", 7, "b" * 64)


@st.composite
def computations(draw):
    width = draw(st.sampled_from([1, 2, 16]))
    pool = draw(st.lists(st.integers(0, 2 ** (8 * width) - 1), min_size=1, max_size=4))
    masks = st.sampled_from([mask.to_bytes(width, "little") for mask in pool])
    subjects, objects, actions = draw(ids), draw(ids), draw(ids)
    rows = len(objects) * len(actions)
    return Precomputation(
        origin=Origin("shop", draw(st.integers(0, 2**40)), "b" * 64),
        width=width,
        subjects=subjects,
        subject_masks=b"".join(draw(masks) for _ in subjects),
        objects=objects,
        actions=actions,
        permission_masks=b"".join(draw(masks) for _ in range(rows)),
        tiers=draw(st.lists(st.builds(Tier, st.sampled_from(Ruling), masks), max_size=3)),
    )


def row(masks, width, number):
    return int.from_bytes(masks[number * width : (number + 1) * width], "little")


def brute_force(computed, subject, object_, action):
    if subject not in computed.subjects or object_ not in computed.objects or action not in computed.actions:
        return Ruling.ASK
    permission = computed.objects.index(object_) * len(computed.actions) + computed.actions.index(action)
    common = row(computed.subject_masks, computed.width, computed.subjects.index(subject)) & row(
        computed.permission_masks, computed.width, permission
    )
    matching = [tier.ruling for tier in computed.tiers if int.from_bytes(tier.mask, "little") & common]
    return matching[0] if matching else Ruling.DENY


@given(computations(), st.text(max_size=3))
def test_every_look_up_gives_what_was_computed_and_asks_about_the_rest(computed, stranger):
    snapshot = Snapshot.open(write_snapshot(computed, SPARK), TRUSTED, computed.origin)
    for subject in [*computed.subjects, stranger]:
        for object_ in [*computed.objects, stranger]:
            for action in [*computed.actions, stranger]:
                expected = brute_force(computed, subject, object_, action)
                assert snapshot.lookup(subject, object_, action)[0] is expected
                assert snapshot.lookup(subject, object_, action)[0] is expected


def small():
    return Precomputation(
        origin=ORIGIN,
        width=1,
        subjects=["alice", "bob"],
        subject_masks=b"\x03\x01",
        objects=["/o"],
        actions=["read"],
        permission_masks=b"\x03",
        tiers=[Tier(Ruling.DENY, b"\x02"), Tier(Ruling.ALLOW, b"\x01")],
        policies=["everyone", "not alice"],
    )


def test_an_earlier_tier_overrides_a_later_one():
    snapshot = Snapshot.open(write_snapshot(small(), SPARK), TRUSTED, ORIGIN)
    ruling, matched = snapshot.lookup("alice", "/o", "read")
    assert (ruling, snapshot.policies(matched)) == (Ruling.DENY, ("not alice",))
    ruling, matched = snapshot.lookup("bob", "/o", "read")
    assert (ruling, snapshot.policies(matched)) == (Ruling.ALLOW, ("everyone",))


def test_an_id_that_is_no_text_for_the_wire_is_merely_unknown():
    snapshot = Snapshot.open(write_snapshot(small(), SPARK), TRUSTED, ORIGIN)
    assert snapshot.lookup("\ud800", "/o", "read") == (Ruling.ASK, 0)


@pytest.mark.parametrize("other", [{"epoch": 8}, {"domain": "bank"}, {"bundle": "c" * 64}], ids=str)
def test_a_snapshot_of_another_release_is_refused(other):
    with pytest.raises(SnapshotRefused, match=r"made under epoch 7 of `shop` .* and the policies stand at"):
        Snapshot.open(write_snapshot(small(), SPARK), TRUSTED, msgspec.structs.replace(ORIGIN, **other))


def test_a_snapshot_signed_by_a_stranger_is_refused():
    with pytest.raises(SnapshotRefused, match=f"signed by `{SPARK.public}`"):
        Snapshot.open(write_snapshot(small(), SPARK), [Identity.generate().public], ORIGIN)


def test_a_snapshot_that_claims_a_trusted_signer_is_refused():
    forged = bytearray(write_snapshot(small(), Identity.generate()))
    PREAMBLE.pack_into(forged, 0, MAGIC, SPARK.public.raw, PREAMBLE.unpack_from(forged)[2])
    with pytest.raises(SnapshotRefused, match="damaged"):
        Snapshot.open(forged, TRUSTED, ORIGIN)


@settings(max_examples=25)
@given(st.data())
def test_a_snapshot_with_any_bit_flipped_is_refused(data):
    damaged = bytearray(write_snapshot(small(), SPARK))
    damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(SnapshotRefused):
        Snapshot.open(damaged, TRUSTED, ORIGIN)


def test_a_snapshot_cut_short_anywhere_is_refused():
    whole = write_snapshot(small(), SPARK)
    for length in range(len(whole)):
        with pytest.raises(SnapshotRefused):
            Snapshot.open(whole[:length], TRUSTED, ORIGIN)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("subject_masks", b"\x03", "2 subjects need 2 bytes"),
        ("permission_masks", b"", "1 permissions need 1 bytes"),
        ("subjects", ["alice", "alice"], "subjects are not distinct"),
        ("width", 0, "of one width"),
        ("tiers", [Tier(Ruling.ALLOW, b"")], "of one width"),
    ],
)
def test_parts_that_do_not_fit_together_are_not_written(field, value, message):
    with pytest.raises(ValueError, match=message):
        write_snapshot(dataclasses.replace(small(), **{field: value}), SPARK)


def remade(body=lambda body: body, **fields):
    """A snapshot with another header or body, signed by a trusted key all the same."""
    written = write_snapshot(small(), SPARK)
    length = PREAMBLE.unpack_from(written)[2]
    header = msgspec.msgpack.decode(written[PREAMBLE.size : PREAMBLE.size + length], type=Header)
    for name in ("subjects", "objects"):
        if isinstance(fields.get(name), dict):
            fields[name] = msgspec.structs.replace(getattr(header, name), **fields[name])
    encoded = msgspec.msgpack.encode(msgspec.structs.replace(header, **fields))
    start = PREAMBLE.pack(MAGIC, SPARK.public.raw, len(encoded)) + encoded
    rest = body(written[padded(PREAMBLE.size + length) : -SIGNATURE_BYTES])
    data = start.ljust(padded(len(start)), b"\0") + rest
    return data + SPARK.sign(message(data))


def test_a_snapshot_made_anew_with_nothing_altered_opens():
    assert Snapshot.open(remade(), TRUSTED, ORIGIN).lookup("bob", "/o", "read")[0] is Ruling.ALLOW


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"width": 0}, "masks have no width"),
        ({"width": -1}, "masks have no width"),
        ({"width": 2}, "a tier is not as wide"),
        ({"width": 9, "tiers": ()}, "its sections take"),
        ({"subjects": {"slots": 0}}, "impossible sizes"),
        ({"subjects": {"slots": 2}}, "impossible sizes"),
        ({"objects": {"modulus": 0}}, "impossible sizes"),
        ({"objects": {"text_bytes": -4}}, "impossible sizes"),
        ({"subjects": {"count": -1}}, "impossible sizes"),
        ({"subjects": {"count": 10**9, "slots": 10**10}}, "more masks than rows|its sections take"),
        ({"subjects": {"text_bytes": 7}}, "table of subjects"),
        ({"subject_masks": 3}, "more masks than rows, or none"),
        ({"subject_masks": 0}, "more masks than rows, or none"),
        ({"permission_masks": -1}, "more masks than rows, or none"),
        ({"subject_masks": 1}, "its sections take"),
        ({"actions": ()}, "more masks than rows"),
        ({"actions": ("read", "read")}, "an action is named twice"),
        ({"tiers": (Tier(Ruling.ALLOW, b""),)}, "a tier is not as wide"),
        ({"policies": ("p",) * 9}, "more policies than a mask has bits"),
        ({"expires": float("nan")}, "no time that can be told"),
    ],
    ids=str,
)
def test_a_snapshot_whose_sizes_cannot_be_is_refused_though_a_trusted_key_signed_it(fields, problem):
    with pytest.raises(SnapshotRefused, match=problem):
        Snapshot.open(remade(**fields), TRUSTED, ORIGIN)


def test_a_snapshot_with_more_or_less_than_its_sections_is_refused_though_a_trusted_key_signed_it():
    whole = len(remade())
    for length in range(0, 60, 3):
        data = remade(lambda body, length=length: body[:length])
        if len(data) != whole:
            with pytest.raises(SnapshotRefused, match="does not fit together"):
                Snapshot.open(data, TRUSTED, ORIGIN)
    with pytest.raises(SnapshotRefused, match="does not fit together"):
        Snapshot.open(remade(lambda body: body + bytes(4)), TRUSTED, ORIGIN)


@settings(max_examples=100)
@given(st.data())
def test_a_snapshot_with_other_bytes_is_refused_or_read_whoever_signed_it(data):
    """Whatever is in the sections, nothing but a refusal is raised, and every search ends."""

    def altered(body):
        at = data.draw(st.integers(0, len(body) - 1))
        return body[:at] + data.draw(st.binary(min_size=1, max_size=4)) + body[at + 1 :]

    try:
        snapshot = Snapshot.open(remade(altered), TRUSTED, ORIGIN)
    except SnapshotRefused:
        return
    for subject in ("alice", "bob", "zoe"):
        snapshot.lookup(subject, "/o", "read")


def test_numbers_of_masks_that_are_not_there_are_refused():
    shared = dataclasses.replace(
        small(), width=32, subject_masks=bytes(64 * 32), subjects=[str(n) for n in range(64)],
        permission_masks=bytes(32), tiers=[],
    )  # fmt: skip
    written = write_snapshot(shared, SPARK)
    numbers = written.rindex(bytes(4 * 64 + 32 + 32))
    data = written[:numbers] + b"\1" + written[numbers + 1 : -SIGNATURE_BYTES]
    with pytest.raises(SnapshotRefused, match="a subject has a mask that is not there"):
        Snapshot.open(data + SPARK.sign(message(data)), TRUSTED, ORIGIN)


def test_masks_that_many_rows_have_are_stored_once():
    many = dataclasses.replace(
        small(),
        width=32,
        subjects=[str(n) for n in range(1000)],
        subject_masks=(b"\x01" + bytes(31)) * 1000,
        permission_masks=b"\x01" + bytes(31),
        tiers=[Tier(Ruling.ALLOW, b"\x01" + bytes(31))],
    )
    written = write_snapshot(many, SPARK)
    assert len(written) < 1000 * 32
    assert Snapshot.open(written, TRUSTED, ORIGIN).lookup("999", "/o", "read")[0] is Ruling.ALLOW


def test_writing_the_same_twice_gives_the_same_bytes():
    assert write_snapshot(small(), SPARK) == write_snapshot(small(), SPARK)


def test_a_million_decisions_take_at_most_ten_thousand_bytes():
    chance = random.Random(1)
    subjects, objects, actions, roles = 20_000, 1_000, 4, 100
    width = -(-roles // 8)
    held = [sum(1 << role for role in chance.sample(range(roles), 4)) for _ in range(subjects)]
    granted = [sum(1 << role for role in chance.sample(range(roles), 3)) for _ in range(objects * actions)]
    computed = Precomputation(
        origin=ORIGIN,
        width=width,
        subjects=[f"user{n}" for n in range(subjects)],
        subject_masks=b"".join(mask.to_bytes(width, "little") for mask in held),
        objects=[f"/object/{n}" for n in range(objects)],
        actions=["read", "write", "list", "delete"],
        permission_masks=b"".join(mask.to_bytes(width, "little") for mask in granted),
        tiers=[Tier(Ruling.ALLOW, b"\xff" * width)],
    )
    assert len(write_snapshot(computed, SPARK)) / (subjects * objects * actions / 1e6) <= 10_000


def test_a_saved_snapshot_opens_and_leaves_nothing_beside_it(tmp_path):
    path = tmp_path / "decisions.snapshot"
    save_snapshot(path, write_snapshot(small(), SPARK))
    assert open_snapshot(path, TRUSTED, ORIGIN).lookup("bob", "/o", "read")[0] is Ruling.ALLOW
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_is_not_there_is_refused_by_name(tmp_path):
    with pytest.raises(SnapshotRefused, match=r"nothing\.snapshot"):
        open_snapshot(tmp_path / "nothing.snapshot", TRUSTED, ORIGIN)
