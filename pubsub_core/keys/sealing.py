"""Sealing events: the values of each key group encrypted, and bound to the event they belong to.

AES-256-GCM. Invariant: no cipher ever meets a nonce twice. Each cipher is derived from a group's data key and the
sealer's random salt, and its nonce counts what is sealed under that salt. So a restart, another broker and another
epoch each mean another cipher. docs/design/sealing.md has the argument in full.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import msgspec
from cryptography.exceptions import InvalidTag

from pubsub_core.keys.derivation import SALT_BYTES
from pubsub_core.keys.errors import CannotOpen, InvalidPlan, KeyMissing
from pubsub_core.keys.numbers import LIMIT, Numbers, nonce
from pubsub_core.keys.padding import pad, unpad
from pubsub_core.keys.plan import Group, Plan
from pubsub_core.keys.ring import KeyRing

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[object, ...]).decode
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

    def __init__(self, plan: Plan, ring: KeyRing, numbers: Numbers | None = None) -> None:
        self._plan = plan
        self._ring = ring
        self._numbers = numbers or Numbers()
        self._prepared: tuple[int, bytes] = (-1, b"")
        """For which ring and salt the slots are."""
        self._since = self._until = math.inf
        self._slots: list[_Slot] = []

    def seal(self, binding: Binding, values: Mapping[str, object]) -> Sealed:
        """The values of all groups whose keys are held. Raises KeyMissing for a value of another group.

        A group is sealed whether or not its attributes have values, so that what is missing does not show.
        """
        at, number = binding.time, self._numbers.take()
        if self._prepared != (self._ring.revision, self._numbers.salt) or not self._since <= at < self._until:
            self._prepare(at)
        bound, counted, sizes = _encode(binding), nonce(number), self._plan.sizes
        parts, get = [], values.get
        for slot in self._slots:
            content = tuple(map(get, slot.attributes))
            if slot.encrypt is None:
                _check_empty(slot.group, content)
                continue
            plain = _encode(content)
            data = slot.encrypt(counted, pad(plain, sizes) if sizes else plain, bound + slot.label)
            parts.append(Part(slot.group, slot.epoch, data))
        return Sealed(self._numbers.salt, number, tuple(parts))

    def seal_dummy(self, binding: Binding) -> Sealed:
        """What looks like an event and says nothing. Raises InvalidPlan if it would be told apart by its size."""
        if not self._plan.sizes:
            raise InvalidPlan("must have size classes, or dummy events could be told from others")
        groups = [group.id for group in self._plan.groups if self._ring.sealing(group.id, binding.time)]
        return self._seal_all(binding, [(group, ()) for group in groups])

    def seal_for(self, group: str, binding: Binding, content: tuple[object, ...]) -> Sealed:
        """Something else than an event, for one group; `binding.purpose` says what. Raises KeyMissing."""
        return self._seal_all(binding, [(group, content)])

    def _seal_all(self, binding: Binding, contents: list[tuple[str, tuple[object, ...]]]) -> Sealed:
        """Each of these for its group, under one number."""
        number, parts = self._numbers.take(), []
        bound, salt = _encode(binding), self._numbers.salt
        for group, content in contents:
            key = self._ring.sealing(group, binding.time)
            if key is None:
                raise KeyMissing(group)
            plain = pad(_encode(content), self._plan.sizes)
            parts.append(
                Part(group, key.epoch, key.cipher(salt).encrypt(nonce(number), plain, bound + key.label))
            )
        return Sealed(salt, number, tuple(parts))

    def _prepare(self, at: float) -> None:
        """Find the keys for this time, and how long they last."""
        self._prepared = self._ring.revision, self._numbers.salt
        self._since, self._until = -math.inf, math.inf
        self._slots = [self._slot(group.id, group.attributes, at) for group in self._plan.groups]

    def _slot(self, group: str, attributes: tuple[str, ...], at: float) -> _Slot:
        key = self._ring.sealing(group, at)
        if key is None:
            return _Slot(group, attributes, 0, b"", None)
        self._since, self._until = max(self._since, key.start), min(self._until, key.until)
        return _Slot(group, attributes, key.epoch, key.label, key.cipher(self._numbers.salt).encrypt)


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
    if len(sealed.salt) != SALT_BYTES or not 0 <= sealed.number < LIMIT:
        raise CannotOpen
    return nonce(sealed.number)


class Opened(Mapping[str, object]):
    """The values of a sealed event, each group opened when it is first asked for.

    What cannot be opened is missing here: for want of the key, or because it was not sealed so. `broken` counts
    the groups of the latter kind met so far.
    """

    __slots__ = (
        "_at",
        "_bound",
        "_nonce",
        "_parts",
        "_plan",
        "_ring",
        "_salt",
        "_silent",
        "_values",
        "broken",
    )

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
        self._silent = False
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

    @property
    def dummy(self) -> bool:
        """Whether this is no event at all, as far as can be known here: nothing in it is said."""
        self.all()
        return self._silent

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
        self._silent = self._silent or not values
        for name, value in zip(group.attributes, values, strict=False):
            if value is not None:
                self._values[name] = value


def _check_empty(group: str, content: tuple[object, ...]) -> None:
    if any(value is not None for value in content):
        raise KeyMissing(group)
