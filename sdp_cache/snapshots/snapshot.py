"""Decisions precomputed for many subjects and permissions at once, as small as two tables of masks.

Each policy, or role, is a bit. A subject's mask has the policies whose subject part it satisfies, a
permission's mask those whose object and action parts it satisfies; the policies that apply are the bits
common to both. Tiers, tried in order, say what follows: allow, deny, or ask a PDP, where a policy looks at
more than ids can tell. Without a match it is a deny. Where that is smaller, equal masks are stored once, and
rows refer to them by number.

The layout, little-endian: magic with version, the signer's key, the header's length, the header (msgpack),
the sections that `Header.sections` lists, each at a multiple of four, and the signature of all that.
Nothing else is read before the signature is verified, and nothing is unpacked: it is used where it lies.
"""

from __future__ import annotations

import enum
import hashlib
import math
import struct
import sys
from array import array
from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate
from typing import TypeAlias, TypeVar

import msgspec

from authz import AuthFabricError, PublicKey
from authz.errors import UNREADABLE, InvalidSignature

MAGIC = b"AFSNAP\x00\x02"
PREAMBLE = struct.Struct("<8s32sI")
SIGNATURE_BYTES = 64
MAX_REMEMBERED = 65_536
"""Ids whose masks are kept at hand, so that a look-up of a frequent one costs a dictionary look-up."""

Buffer: TypeAlias = bytes | bytearray | memoryview
Key = TypeVar("Key")


class SnapshotRefused(AuthFabricError):
    """A snapshot that must not be used: `problem` says why."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"the snapshot is refused: {problem}")
        self.problem = problem


class Ruling(enum.IntEnum):
    """What follows if a policy of a tier applies."""

    DENY = 0
    ALLOW = 1
    ASK = 2


class Tier(msgspec.Struct, frozen=True, array_like=True):
    """Policies of equal standing: the ruling if one of them applies and none of an earlier tier does."""

    ruling: Ruling
    mask: bytes


class NameTable(msgspec.Struct, frozen=True, array_like=True):
    """The sizes of a table of ids: a hash table of positions in one long text."""

    count: int
    text_bytes: int
    slots: int
    modulus: int

    def fits(self) -> bool:
        """Whether the sizes are possible, and leave a slot empty, at which a search in vain ends."""
        return 0 <= self.count < self.slots and self.text_bytes >= 0 and self.modulus > 0


class Origin(msgspec.Struct, frozen=True):
    """The policies that something was computed from: those of one release."""

    domain: str
    epoch: int
    bundle: str
    """The hash of the policies, which the release names."""

    def __str__(self) -> str:
        return f"epoch {self.epoch} of `{self.domain}` (bundle {self.bundle[:12]})"


class Header(msgspec.Struct, frozen=True):
    """What a snapshot is about, and the sizes from which the place of every section follows."""

    origin: Origin
    width: int
    """Bytes of a mask."""
    subjects: NameTable
    objects: NameTable
    actions: tuple[str, ...]
    subject_masks: int
    """How many are stored: as many as subjects in their order, or fewer, and the subjects refer to them."""
    permission_masks: int
    """Likewise, for each object and action."""
    tiers: tuple[Tier, ...]
    policies: tuple[str, ...] = ()
    """Names of the bits from the lowest, if decisions are to name policies."""
    expires: float | None = None

    def sections(self) -> Iterator[tuple[str, int]]:
        """Each section in order, with its length in bytes."""
        for kind, table in (("subject", self.subjects), ("object", self.objects)):
            yield f"{kind}.ends", 4 * table.count
            yield f"{kind}.text", table.text_bytes
            yield f"{kind}.slots", 4 * table.slots
        permissions = self.objects.count * len(self.actions)
        for kind, rows, masks in (
            ("subject", self.subjects.count, self.subject_masks),
            ("permission", permissions, self.permission_masks),
        ):
            yield f"{kind}.numbers", 4 * rows if masks < rows else 0
            yield f"{kind}.masks", self.width * masks

    def misfit(self) -> str:
        """What about the sizes cannot be; nothing if all is well."""
        rows = self.objects.count * len(self.actions)
        shares = ((self.subject_masks, self.subjects.count), (self.permission_masks, rows))
        found = {
            "its masks have no width": self.width < 1,
            "its tables of names have impossible sizes": not (self.subjects.fits() and self.objects.fits()),
            "an action is named twice": len(set(self.actions)) < len(self.actions),
            "it has more masks than rows, or none": not all(bool(n) <= masks <= n for masks, n in shares),
            "a tier is not as wide as a mask": any(len(each.mask) != self.width for each in self.tiers),
            "it names more policies than a mask has bits": len(self.policies) > 8 * self.width,
            "it ends at no time that can be told": self.expires is not None and math.isnan(self.expires),
        }
        return next((problem for problem, holds in found.items() if holds), "")


def padded(length: int) -> int:
    return -(-length // 4) * 4


def slot_of(name: bytes, table: NameTable) -> int:
    """Where the search for a name begins. The modulus follows from all names, so none can plan to collide."""
    return (int.from_bytes(name, "little") % table.modulus * table.modulus >> 64) % table.slots


def message(data: Buffer) -> bytes:
    """What is signed for these bytes."""
    return b"authfabric snapshot\0" + hashlib.blake2b(data).digest()


class Names:
    """Where the rows of ids are."""

    __slots__ = ("_ends", "_slots", "_table", "_text")

    def __init__(self, table: NameTable, kind: str, sections: dict[str, memoryview]) -> None:
        """Raises SnapshotRefused if a search could lead out of the table, or have no end."""
        self._table = table
        self._ends = sections[f"{kind}.ends"].cast("I")
        self._text = sections[f"{kind}.text"]
        self._slots = sections[f"{kind}.slots"].cast("I")
        ends, slots = self._ends.tolist(), self._slots.tolist()
        whole = slots.count(0) == table.slots - table.count and max(slots) <= table.count
        if not whole or ends != sorted(ends) or (ends[-1] if ends else 0) != table.text_bytes:
            raise SnapshotRefused(f"its table of {kind}s does not fit together")

    def sections(self, names: Sequence[str]) -> tuple[NameTable, list[bytes]] | None:
        """The table as it lies, if it is of exactly these names in this order; None otherwise."""
        encoded = [each.encode() for each in names]
        if b"".join(encoded) != self._text or array("I", accumulate(map(len, encoded))) != self._ends:
            return None
        return self._table, [self._ends.tobytes(), self._text.tobytes(), self._slots.tobytes()]

    def row(self, name: str) -> int | None:
        try:
            sought = name.encode()
        except UnicodeEncodeError:
            return None
        slot = slot_of(sought, self._table)
        while stored := self._slots[slot]:
            row = stored - 1
            if self._text[self._ends[row - 1] if row else 0 : self._ends[row]] == sought:
                return row
            slot = (slot + 1) % self._table.slots
        return None


class _Masks:
    """The masks of rows."""

    __slots__ = ("_masks", "_numbers", "_width")

    def __init__(self, width: int, kind: str, sections: dict[str, memoryview]) -> None:
        self._width = width
        self._numbers = sections[f"{kind}.numbers"].cast("I")
        self._masks = sections[f"{kind}.masks"]
        if max(self._numbers, default=-1) * width >= len(self._masks):
            raise SnapshotRefused(f"a {kind} has a mask that is not there")

    def __getitem__(self, row: int) -> int:
        start = (self._numbers[row] if self._numbers else row) * self._width
        return int.from_bytes(self._masks[start : start + self._width], "little")


class Snapshot:
    """A verified snapshot, ready to be asked."""

    def __init__(self, signer: PublicKey, header: Header, body: memoryview) -> None:
        """Raises SnapshotRefused if its parts do not fit together."""
        sections = dict(_divide(header, body))
        self.header = header
        self.signer = signer
        self.subjects = Names(header.subjects, "subject", sections)
        self.objects = Names(header.objects, "object", sections)
        self._actions = {action: at for at, action in enumerate(header.actions)}
        self._of_subject = _Masks(header.width, "subject", sections)
        self._of_permission = _Masks(header.width, "permission", sections)
        self._tiers = [(int.from_bytes(tier.mask, "little"), tier.ruling) for tier in header.tiers]
        self._seen_subjects: dict[str, int] = {}
        self._seen_permissions: dict[tuple[str, str], int] = {}

    @classmethod
    def open(cls, data: Buffer, trusted: Collection[PublicKey], origin: Origin) -> Snapshot:
        """Raises SnapshotRefused unless it is whole, made from these policies, and by someone trusted."""
        snapshot = cls(*_verify(memoryview(data), trusted))
        made = snapshot.header.origin
        if made != origin:
            raise SnapshotRefused(f"it was made under {made}, and the policies stand at {origin}")
        return snapshot

    @property
    def epoch(self) -> int:
        return self.header.origin.epoch

    def require_epoch(self, epoch: int) -> None:
        """Raise SnapshotRefused unless it was made under this epoch."""
        if self.epoch != epoch:
            raise SnapshotRefused(f"it was made under epoch {self.epoch}, and the policies stand at {epoch}")

    def lookup(self, subject: str, object_: str, action: str) -> tuple[Ruling, int]:
        """What was precomputed, and the bits it follows from; ASK about what the snapshot does not know."""
        of_subject = self._seen_subjects.get(subject)
        if of_subject is None:
            of_subject = self._subject_mask(subject)
        of_permission = self._seen_permissions.get((object_, action))
        if of_permission is None:
            of_permission = self._permission_mask(object_, action)
        if of_subject < 0 or of_permission < 0:
            return Ruling.ASK, 0
        common = of_subject & of_permission
        for mask, ruling in self._tiers:
            if matched := common & mask:
                return ruling, matched
        return Ruling.DENY, 0

    def policies(self, matched: int) -> tuple[str, ...]:
        """The names of these bits, each once: a policy may have several."""
        names = self.header.policies
        found = (name for bit, name in enumerate(names) if matched >> bit & 1)
        return tuple(dict.fromkeys(found)) if matched else ()

    def _subject_mask(self, subject: str) -> int:
        row = self.subjects.row(subject)
        if row is None:
            return -1
        return _remember(self._seen_subjects, subject, self._of_subject[row])

    def _permission_mask(self, object_: str, action: str) -> int:
        row, column = self.objects.row(object_), self._actions.get(action)
        if row is None or column is None:
            return -1
        mask = self._of_permission[row * len(self._actions) + column]
        return _remember(self._seen_permissions, (object_, action), mask)


def _remember(seen: dict[Key, int], key: Key, mask: int) -> int:
    if len(seen) >= MAX_REMEMBERED:
        seen.clear()
    seen[key] = mask
    return mask


def _verify(data: memoryview, trusted: Collection[PublicKey]) -> tuple[PublicKey, Header, memoryview]:
    if len(data) < PREAMBLE.size + SIGNATURE_BYTES or sys.byteorder != "little":
        raise SnapshotRefused("it is no snapshot, or only the beginning of one")
    magic, raw, length = PREAMBLE.unpack_from(data)
    if magic != MAGIC:
        raise SnapshotRefused("it is no snapshot of the version read here")
    signer = PublicKey(raw)
    if signer not in trusted:
        raise SnapshotRefused(f"it is signed by `{signer}`, who is not trusted with snapshots")
    signed, signature = data[:-SIGNATURE_BYTES], data[-SIGNATURE_BYTES:]
    try:
        signer.verify(bytes(signature), message(signed))
        header = msgspec.msgpack.decode(signed[PREAMBLE.size : PREAMBLE.size + length], type=Header)
    except (InvalidSignature, *UNREADABLE) as error:
        raise SnapshotRefused("it is damaged, or was altered after it was signed") from error
    return signer, header, signed[padded(PREAMBLE.size + length) :]


def _divide(header: Header, body: memoryview) -> Iterator[tuple[str, memoryview]]:
    """Each section by name. A trusted key may have signed what was made wrongly, so it must be as long as it says."""
    if problem := header.misfit():
        raise SnapshotRefused(f"it does not fit together: {problem}")
    expected = sum(padded(length) for _, length in header.sections())
    if len(body) != expected:
        raise SnapshotRefused(
            f"it does not fit together: its sections take {expected} bytes, and it has {len(body)}"
        )
    start = 0
    for name, length in header.sections():
        yield name, body[start : start + length]
        start += padded(length)
