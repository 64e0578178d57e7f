"""Sealing events: the values of each key group encrypted, and bound to the event they belong to.

AES-256-GCM. Invariant: no cipher ever meets a nonce twice. Each cipher is derived from a group's data key and the
sealer's random salt, and its nonce counts what is sealed under that salt. So a restart, another broker and another
epoch each mean another cipher. docs/design/sealing.md has the argument in full.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from pubsub_core.keys.errors import CannotOpen, KeyMissing
from pubsub_core.keys.nonces import Numbers, nonce
from pubsub_core.keys.padding import pad
from pubsub_core.keys.plan import Plan
from pubsub_core.keys.ring import DataKey, KeyRing

_encode = msgspec.msgpack.Encoder().encode
_ENTRY = struct.Struct(">16sQ")
Cipher: TypeAlias = Callable[[bytes, bytes, bytes], bytes]
"""Encrypts or decrypts: a nonce, some data, and what it is bound to."""


class Binding(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What sealed values belong to: they open together with exactly this, and with nothing else."""

    type: str
    version: str
    publisher: bytes
    """The public key of whoever published."""
    time: float
    """When, in Unix seconds: it selects the keys."""
    sequence: int
    """The publisher's own count, which tells its events apart."""
    purpose: str = "event"
    """What was sealed, for there is more than events that is sealed with these keys."""


class Sealed(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What travels in place of the values."""

    salt: bytes
    number: int
    layout: bytes
    """For each part its group and the epoch of its key: the same bytes as long as the keys are the same."""
    parts: tuple[bytes, ...]
    """The values of each group, in the plan's order, sealed."""

    @property
    def keys(self) -> tuple[tuple[str, int], ...]:
        """The layout as groups and epochs. Raises CannotOpen."""
        try:
            found = tuple((group.hex(), epoch) for group, epoch in _ENTRY.iter_unpack(self.layout))
        except struct.error:
            raise CannotOpen from None
        if len(found) != len(self.parts):
            raise CannotOpen
        return found


@dataclass(frozen=True, slots=True)
class _Slot:
    """One group of the plan, with what sealing takes while its key lasts; nothing if no key is held."""

    group: str
    attributes: tuple[str, ...]
    encrypt: Cipher | None


class Sealer:
    """Seals what one broker sends of one version of a type, with the keys of its ring."""

    def __init__(self, plan: Plan, ring: KeyRing, numbers: Numbers | None = None) -> None:
        self._plan = plan
        self._ring = ring
        self._numbers = numbers or Numbers()
        self._prepared: tuple[int, bytes] = (-1, b"")
        """For which ring and salt the slots are."""
        self._since = self._until = math.inf
        self._slots: list[_Slot] = []
        self._singles: list[tuple[str, Cipher]] = []
        """The same where each group has one attribute, and nothing is padded: the most common case by far."""
        self._absent: list[str] = []
        """The attributes of groups without a key."""
        self._layout = b""

    def seal(self, binding: Binding, values: Mapping[str, object]) -> Sealed:
        """The values of all groups whose keys are held. Raises KeyMissing for a value of another group.

        A group is sealed whether or not its attributes have values, so that what is missing does not show.
        """
        at, number = binding.time, self._numbers.take()
        if self._prepared != (self._ring.revision, self._numbers.salt) or not self._since <= at < self._until:
            self._prepare(at)
        bound, counted, get, encode = _encode(binding), nonce(number), values.get, _encode
        if self._plan.simple:
            for name in self._absent:
                if get(name) is not None:
                    raise KeyMissing(name)
            parts = [encrypt(counted, encode((get(name),)), bound) for name, encrypt in self._singles]
        else:
            parts = list(self._sealed_parts(values, counted, bound))
        return Sealed(self._numbers.salt, number, self._layout, tuple(parts))

    def _sealed_parts(self, values: Mapping[str, object], counted: bytes, bound: bytes) -> Iterator[bytes]:
        sizes = self._plan.sizes
        for slot in self._slots:
            content = tuple(map(values.get, slot.attributes))
            if slot.encrypt is not None:
                yield slot.encrypt(counted, pad(_encode(content), sizes), bound)
            elif any(value is not None for value in content):
                raise KeyMissing(slot.group)

    def seal_rows(
        self, bound: bytes, first: float, last: float, rows: Sequence[Mapping[str, object]]
    ) -> Sealed | None:
        """The values of many events, group by group; None if no key is in use from the first to the last of them.

        Raises KeyMissing.
        """
        number = self._numbers.take()
        if (
            self._prepared != (self._ring.revision, self._numbers.salt)
            or not self._since <= first < self._until
        ):
            self._prepare(first)
        if not last < self._until:
            return None
        counted, sizes, parts = nonce(number), self._plan.sizes, []
        for slot in self._slots:
            column = _column(slot.attributes, rows)
            if slot.encrypt is not None:
                parts.append(slot.encrypt(counted, pad(_encode(column), sizes), bound))
            elif any(value is not None for value in column):
                raise KeyMissing(slot.group)
        return Sealed(self._numbers.salt, number, self._layout, tuple(parts))

    def seal_for(self, group: str, binding: Binding, content: tuple[object, ...]) -> Sealed:
        """Something else than an event, for one group; `binding.purpose` says what. Raises KeyMissing."""
        return self._seal_all(binding, [(group, content)])

    def _seal_all(self, binding: Binding, contents: list[tuple[str, tuple[object, ...]]]) -> Sealed:
        """Each of these for its group, under one number."""
        number, parts, keys = self._numbers.take(), [], []
        bound, salt = _encode(binding), self._numbers.salt
        for group, content in contents:
            key = self._ring.sealing(group, binding.time)
            if key is None:
                raise KeyMissing(group)
            keys.append(key)
            plain = pad(_encode(content), self._plan.sizes)
            parts.append(key.cipher(salt).encrypt(nonce(number), plain, bound))
        return Sealed(salt, number, _layout(keys), tuple(parts))

    def _prepare(self, at: float) -> None:
        """Find the keys for this time, and how long they last."""
        salt = self._numbers.salt
        self._prepared = self._ring.revision, salt
        held = [(group, self._ring.sealing(group.id, at)) for group in self._plan.groups]
        keys = [key for _, key in held if key is not None]
        self._since = max((key.start for key in keys), default=-math.inf)
        # A key that has not begun yet ends what is prepared now, or one event of long ago would have it forgotten.
        self._until = min((self._ring.begins(group.id, at) for group, _ in held), default=math.inf)
        self._layout = _layout(keys)
        self._slots = [
            _Slot(group.id, group.attributes, key.cipher(salt).encrypt if key is not None else None)
            for group, key in held
        ]
        self._singles = [
            (slot.attributes[0], slot.encrypt) for slot in self._slots if slot.encrypt is not None
        ]
        self._absent = [name for slot in self._slots if slot.encrypt is None for name in slot.attributes]


def _column(names: tuple[str, ...], rows: Sequence[Mapping[str, object]]) -> list[object]:
    """The values of a group in all rows; None where there are none."""
    if len(names) == 1:
        name = names[0]
        return [row.get(name) for row in rows]
    return [values if any(each is not None for each in values) else None for values in _tuples(names, rows)]


def _tuples(names: tuple[str, ...], rows: Sequence[Mapping[str, object]]) -> Iterator[tuple[object, ...]]:
    return (tuple(map(row.get, names)) for row in rows)


def _layout(keys: Iterable[DataKey]) -> bytes:
    return b"".join(key.label for key in keys)
