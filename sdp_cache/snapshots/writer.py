"""Writes snapshots: from ids and masks as plain bytes, so that whatever computed them needs nothing but
this."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from authz import Identity
from sdp_cache.snapshots.snapshot import (
    MAGIC,
    PREAMBLE,
    Header,
    Names,
    NameTable,
    Origin,
    Snapshot,
    Tier,
    message,
    padded,
    slot_of,
)


@dataclass(frozen=True, slots=True)
class Precomputation:
    """What was computed. A mask is `width` bytes, little-endian; rows of masks stand one after the other."""

    origin: Origin
    width: int
    subjects: Sequence[str]
    subject_masks: bytes
    objects: Sequence[str]
    actions: Sequence[str]
    permission_masks: bytes
    """For each object in order, for each action in order."""
    tiers: Sequence[Tier]
    policies: Sequence[str] = ()
    expires: float | None = None


def write_snapshot(computed: Precomputation, signer: Identity, previous: Snapshot | None = None) -> bytes:
    """The snapshot of what was computed, signed. Raises ValueError if the parts do not fit together.

    A `previous` one of the same subjects or objects lends its tables of names, which take the longest to make.
    """
    _check(computed)
    known = (previous.subjects, previous.objects) if previous is not None else (None, None)
    subjects, subject_sections = _names(computed.subjects, known[0])
    objects, object_sections = _names(computed.objects, known[1])
    subject_numbers, subject_masks = _shared(computed.subject_masks, computed.width)
    permission_numbers, permission_masks = _shared(computed.permission_masks, computed.width)
    header = Header(
        computed.origin,
        computed.width,
        subjects,
        objects,
        tuple(computed.actions),
        len(subject_masks) // computed.width,
        len(permission_masks) // computed.width,
        tuple(computed.tiers),
        tuple(computed.policies),
        computed.expires,
    )
    encoded = msgspec.msgpack.encode(header)
    parts = [
        PREAMBLE.pack(MAGIC, signer.public.raw, len(encoded)) + encoded,
        *subject_sections,
        *object_sections,
    ]
    parts += [subject_numbers, subject_masks, permission_numbers, permission_masks]
    data = b"".join(part.ljust(padded(len(part)), b"\0") for part in parts)
    return data + signer.sign(message(data))


def _check(computed: Precomputation) -> None:
    if computed.width < 1 or any(len(each.mask) != computed.width for each in computed.tiers):
        raise ValueError(f"masks and tiers must be of one width, at least 1: {computed.width} is said")
    rows = len(computed.objects) * len(computed.actions)
    for what, masks, expected in (
        ("subjects", computed.subject_masks, len(computed.subjects)),
        ("permissions", computed.permission_masks, rows),
    ):
        if len(masks) != expected * computed.width:
            raise ValueError(
                f"{expected} {what} need {expected * computed.width} bytes of masks, not {len(masks)}"
            )
    named = (("subjects", computed.subjects), ("objects", computed.objects), ("actions", computed.actions))
    for what, ids in named:
        if len(set(ids)) != len(ids):
            raise ValueError(f"the {what} are not distinct")


def _names(ids: Sequence[str], known: Names | None) -> tuple[NameTable, list[bytes]]:
    """The ids in their order as one text with its ends, and a hash table at most three quarters full."""
    if known is not None and (found := known.sections(ids)) is not None:
        return found
    encoded = [each.encode() for each in ids]
    text = b"".join(encoded)
    modulus = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") | 1 << 63 | 1
    table = NameTable(len(ids), len(text), len(ids) * 4 // 3 + 1, modulus)
    ends, slots, end = array("I"), array("I", bytes(4 * table.slots)), 0
    for row, name in enumerate(encoded):
        end += len(name)
        ends.append(end)
        slot = slot_of(name, table)
        while slots[slot]:
            slot = (slot + 1) % table.slots
        slots[slot] = row + 1
    return table, [ends.tobytes(), text, slots.tobytes()]


def _shared(masks: bytes, width: int) -> tuple[bytes, bytes]:
    """For each row the number of its mask, and the masks by number; no numbers where they do not pay."""
    numbers: dict[bytes, int] = {}
    rows = array("I")
    for start in range(0, len(masks), width):
        rows.append(numbers.setdefault(masks[start : start + width], len(numbers)))
    shared = b"".join(numbers)
    return (rows.tobytes(), shared) if 4 * len(rows) + len(shared) < len(masks) else (b"", masks)
