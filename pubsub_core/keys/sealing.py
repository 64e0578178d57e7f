"""Sealing events: the values of each key group encrypted, and bound to the event they belong to.

AES-256-GCM. Invariant: no cipher ever sees a nonce twice. A sealer draws a salt of 128 random bits when it is made, and
another after 2^32 events; each cipher is derived from a group's data key and that salt, and its nonce counts the
sealer's events. So a restart, another broker and another epoch each mean another cipher. docs/design/sealing.md has
the argument in full.
"""

from __future__ import annotations

import math
import os
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import msgspec
from cryptography.exceptions import InvalidTag

from pubsub_core.keys.derivation import SALT_BYTES
from pubsub_core.keys.errors import CannotOpen, KeyMissing
from pubsub_core.keys.padding import pad, unpad
from pubsub_core.keys.plan import Group, Plan
from pubsub_core.keys.ring import KeyRing

EVENTS_PER_SALT = 2**32

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[object, ...]).decode
_NONCE_BYTES = 12
_Encrypt = Callable[[bytes, bytes, bytes], bytes]


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


class Part(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The values of one key group, in the plan's order, sealed."""

    group: str
    epoch: int
    data: bytes


class Sealed(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What travels in place of the values."""

    salt: bytes
    number: int
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class _Slot:
    """One group of the plan, with what sealing takes while its key lasts; nothing if no key is held."""

    group: str
    attributes: tuple[str, ...]
    epoch: int
    label: bytes
    encrypt: _Encrypt | None


class Sealer:
    """Seals what one broker sends of one version of a type, with the keys of its ring."""

    def __init__(self, plan: Plan, ring: KeyRing, draw: Callable[[int], bytes] = os.urandom) -> None:
        self._plan = plan
        self._ring = ring
        self._draw = draw
        self._number = 0
        self.renew()
        _sealers.add(self)

    def seal(self, binding: Binding, values: Mapping[str, object]) -> Sealed:
        """The values of all groups whose keys are held. Raises KeyMissing for a value of another group.

        A group is sealed whether or not its attributes have values, so that what is missing does not show.
        """
        at = binding.time
        number = self._take_number()
        if self._revision != self._ring.revision or not self._since <= at < self._until:
            self._prepare(at)
        bound, nonce, sizes = _encode(binding), number.to_bytes(_NONCE_BYTES, "big"), self._plan.sizes
        parts, get = [], values.get
        for slot in self._slots:
            content = tuple(map(get, slot.attributes))
            if slot.encrypt is None:
                _check_empty(slot.group, content)
                continue
            plain = _encode(content)
            data = slot.encrypt(nonce, pad(plain, sizes) if sizes else plain, bound + slot.label)
            parts.append(Part(slot.group, slot.epoch, data))
        return Sealed(self._salt, number, tuple(parts))

    def renew(self) -> None:
        """Begin again with another salt."""
        self._salt = self._draw(SALT_BYTES)
        self._number = 0
        self._revision = -1
        self._since = self._until = math.inf
        self._slots: list[_Slot] = []

    def _take_number(self) -> int:
        """The number of the next event, given once: it stays used if sealing fails."""
        if self._number >= EVENTS_PER_SALT:
            self.renew()
        self._number += 1
        return self._number - 1

    def _prepare(self, at: float) -> None:
        """Find the keys for this time, and how long they last."""
        self._revision, self._since, self._until = self._ring.revision, -math.inf, math.inf
        self._slots = [self._slot(group.id, group.attributes, at) for group in self._plan.groups]

    def _slot(self, group: str, attributes: tuple[str, ...], at: float) -> _Slot:
        key = self._ring.sealing(group, at)
        if key is None:
            return _Slot(group, attributes, 0, b"", None)
        self._since, self._until = max(self._since, key.start), min(self._until, key.until)
        return _Slot(group, attributes, key.epoch, key.label, key.cipher(self._salt).encrypt)


def open_part(
    ring: KeyRing, binding: Binding, sealed: Sealed, part: Part, sizes: tuple[int, ...] = ()
) -> tuple[object, ...]:
    """The values in one part of something sealed. Raises CannotOpen, whatever is wrong."""
    return _open(ring, _encode(binding), binding.time, sealed.salt, _nonce(sealed), part, sizes)


def _open(
    ring: KeyRing, bound: bytes, at: float, salt: bytes, nonce: bytes, part: Part, sizes: tuple[int, ...]
) -> tuple[object, ...]:
    key = ring.opening(part.group, part.epoch, at)
    if key is None:
        raise CannotOpen
    kept = key.ciphers.get(salt)
    cipher = kept or key.cipher(salt)
    try:
        data = cipher.decrypt(nonce, part.data, bound + key.label)
        values = _decode(unpad(data, sizes) if sizes else data)
    except (InvalidTag, ValueError, msgspec.DecodeError, RecursionError):
        raise CannotOpen from None
    if kept is None:
        key.keep(salt, cipher)
    return values


def _nonce(sealed: Sealed) -> bytes:
    if len(sealed.salt) != SALT_BYTES or not 0 <= sealed.number < EVENTS_PER_SALT:
        raise CannotOpen
    return sealed.number.to_bytes(_NONCE_BYTES, "big")


class Opened(Mapping[str, object]):
    """The values of a sealed event, each group opened when it is first asked for.

    What cannot be opened is missing here: for want of the key, or because it was not sealed so. `broken` counts
    the groups of the latter kind met so far.
    """

    __slots__ = ("_at", "_bound", "_nonce", "_parts", "_plan", "_ring", "_salt", "_values", "broken")

    def __init__(
        self,
        ring: KeyRing,
        plan: Plan,
        binding: Binding,
        sealed: Sealed,
        clear: Mapping[str, object] | None = None,
    ) -> None:
        """`clear` are the values that did not have to be sealed; none of them takes the place of one that had to.

        Raises CannotOpen for what is no sealed event at all.
        """
        self._ring = ring
        self._plan = plan
        self._at = binding.time
        self._bound = _encode(binding)
        self._salt = sealed.salt
        self._nonce = _nonce(sealed)
        self._parts = {part.group: part for part in sealed.parts if ring.holds(part.group)}
        self._values = {name: clear[name] for name in plan.clear(clear)} if clear else {}
        self.broken = 0

    def __getitem__(self, attribute: str) -> object:
        self._look(attribute)
        return self._values[attribute]

    def get(self, attribute: str, default: object = None) -> object:
        self._look(attribute)
        return self._values.get(attribute, default)

    def __iter__(self) -> Iterator[str]:
        return iter(self.all())

    def __len__(self) -> int:
        return len(self.all())

    def all(self) -> dict[str, object]:
        """Everything that can be opened."""
        if self._parts:
            for group in self._plan.groups:
                part = self._parts.pop(group.id, None)
                if part is not None:
                    self._open(group, part)
            self._parts.clear()
        return self._values

    def _look(self, attribute: str) -> None:
        """Open the group of an attribute, unless that was done before."""
        group = self._plan.group_of.get(attribute)
        part = self._parts.pop(group.id, None) if group is not None else None
        if group is not None and part is not None:
            self._open(group, part)

    def _open(self, group: Group, part: Part) -> None:
        try:
            values = _open(self._ring, self._bound, self._at, self._salt, self._nonce, part, self._plan.sizes)
        except CannotOpen:
            self.broken += 1
            return
        for name, value in zip(group.attributes, values, strict=False):
            if value is not None:
                self._values[name] = value


def _check_empty(group: str, content: tuple[object, ...]) -> None:
    if any(value is not None for value in content):
        raise KeyMissing(group)


_sealers: weakref.WeakSet[Sealer] = weakref.WeakSet()


def _after_fork() -> None:
    """A forked child would count on from the same number under the same salt."""
    for sealer in _sealers:
        sealer.renew()


os.register_at_fork(after_in_child=_after_fork)
