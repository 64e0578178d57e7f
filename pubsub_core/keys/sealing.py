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
from cryptography.exceptions import InvalidTag

from pubsub_core.keys.derivation import SALT_BYTES
from pubsub_core.keys.errors import CannotOpen, InvalidPlan, KeyMissing
from pubsub_core.keys.numbers import LIMIT, Numbers, nonce
from pubsub_core.keys.padding import pad, unpad
from pubsub_core.keys.plan import Plan
from pubsub_core.keys.ring import DataKey, KeyRing

MAX_LAYOUTS = 1024
"""So many senders' ciphers are kept ready for one type."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[object, ...]).decode
_ENTRY = struct.Struct(">16sQ")
_Cipher: TypeAlias = Callable[[bytes, bytes, bytes], bytes]
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
    encrypt: _Cipher | None


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
        self._singles: list[tuple[str, _Cipher]] = []
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

    def seal_dummy(self, binding: Binding) -> Sealed:
        """What looks like an event and says nothing. Raises InvalidPlan if it would be told apart by its size."""
        if not self._plan.sizes:
            raise InvalidPlan("must have size classes, or dummy events could be told from others")
        held = [group.id for group in self._plan.groups if self._ring.sealing(group.id, binding.time)]
        return self._seal_all(binding, [(group, ()) for group in held])

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
        self._until = min((key.until for key in keys), default=math.inf)
        self._layout = _layout(keys)
        self._slots = [
            _Slot(group.id, group.attributes, key.cipher(salt).encrypt if key is not None else None)
            for group, key in held
        ]
        self._singles = [
            (slot.attributes[0], slot.encrypt) for slot in self._slots if slot.encrypt is not None
        ]
        self._absent = [name for slot in self._slots if slot.encrypt is None for name in slot.attributes]


def open_one(
    ring: KeyRing, binding: Binding, sealed: Sealed, sizes: tuple[int, ...] = ()
) -> tuple[object, ...]:
    """What was sealed for one group. Raises CannotOpen, whatever is wrong."""
    (found,) = sealed.keys or ((),)
    key = ring.opening(*found, binding.time) if len(found) == 2 else None
    if key is None:
        raise CannotOpen
    decrypt, counted = key.cipher(_salt(sealed)).decrypt, _counted(sealed)
    return _open(decrypt, counted, sealed.parts[0], _encode(binding), sizes)


class Opener:
    """Opens what others seal of one version of a type, as far as the ring has the keys."""

    def __init__(self, plan: Plan, ring: KeyRing) -> None:
        self._plan = plan
        self._ring = ring
        self._revision = -1
        self._ready: dict[tuple[bytes, bytes], _Ciphers] = {}

    def open(self, binding: Binding, sealed: Sealed, clear: Mapping[str, object] | None = None) -> Opened:
        """An event's values, to be opened when they are asked for. Raises CannotOpen for what is no sealed event.

        `clear` are the values that did not have to be sealed; none of them takes the place of one that had to.
        """
        ciphers = self._ciphers(sealed)
        values = {each: clear[each] for each in self._plan.clear(clear)} if clear else {}
        return Opened(self, ciphers, binding, sealed, values)

    def open_rows(
        self, bound: bytes, first: float, last: float, sealed: Sealed, rows: Sequence[dict[str, object]]
    ) -> None:
        """Put the values of many events that can be read here into their rows. Raises CannotOpen."""
        ciphers, counted = self._ciphers(sealed), _counted(sealed)
        for part in ciphers.parts:
            if part.decrypt is None or not part.since <= first <= last < part.until:
                raise CannotOpen
            column = _open(part.decrypt, counted, sealed.parts[part.place], bound, ciphers.sizes)
            if len(column) != len(rows):
                raise CannotOpen
            _spread(part.attributes, column, rows)
        if ciphers.parts and not ciphers.kept:
            self.keep(sealed, ciphers)

    def keep(self, sealed: Sealed, ciphers: _Ciphers) -> None:
        """Keep a sender's ciphers ready: only once something was opened, or strangers could fill the table."""
        if len(self._ready) >= MAX_LAYOUTS:
            self._ready.pop(next(iter(self._ready)))
        self._ready[sealed.salt, sealed.layout] = ciphers
        ciphers.kept = True

    def _ciphers(self, sealed: Sealed) -> _Ciphers:
        """What opens the events of this sender, kept ready or found now."""
        if self._revision != self._ring.revision:
            self._revision = self._ring.revision
            self._ready.clear()
        return self._ready.get((sealed.salt, sealed.layout)) or self._find(sealed)

    def _find(self, sealed: Sealed) -> _Ciphers:
        salt, found = _salt(sealed), dict[str, _Part]()
        for place, (id_, epoch) in enumerate(sealed.keys):
            group, key = self._plan.by_id.get(id_), self._ring.at(id_, epoch)
            if group is None or not self._ring.holds(id_):
                continue
            decrypt = key.cipher(salt).decrypt if key is not None else None
            since, until = (key.start, key.until) if key is not None else (math.inf, -math.inf)
            part = _Part(place, group.attributes, decrypt, since - self._ring.skew, until + self._ring.skew)
            found.update(dict.fromkeys(group.attributes, part))
        return _Ciphers(found, self._plan)


@dataclass(frozen=True, slots=True)
class _Part:
    """Where a group's values stand, and what opens them, if the key of that epoch is held; and for which times."""

    place: int
    attributes: tuple[str, ...]
    decrypt: _Cipher | None
    since: float
    until: float


class _Ciphers:
    """What opens the events of one sender, as long as it seals with the same keys."""

    __slots__ = ("by_attribute", "decrypts", "kept", "names", "parts", "places", "since", "sizes", "until")

    def __init__(self, by_attribute: dict[str, _Part], plan: Plan) -> None:
        self.by_attribute = by_attribute
        self.parts = list(dict.fromkeys(by_attribute.values()))
        self.sizes = plan.sizes
        self.kept = False
        self.decrypts = [part.decrypt for part in self.parts if part.decrypt is not None]
        self.names = [part.attributes[0] for part in self.parts]
        self.places = [part.place for part in self.parts]
        # The times in which all of them can be opened at once: none, unless that is simple.
        simple = plan.simple and len(self.decrypts) == len(self.parts)
        self.since = max((part.since for part in self.parts), default=math.inf) if simple else math.inf
        self.until = min((part.until for part in self.parts), default=-math.inf) if simple else -math.inf


class Opened(Mapping[str, object]):
    """The values of a sealed event, each group opened when it is first asked for.

    What cannot be opened is missing here: for want of the key, or because it was not sealed so. `broken` counts
    the groups of the latter kind met so far.
    """

    __slots__ = (
        "_at",
        "_bound",
        "_ciphers",
        "_done",
        "_nonce",
        "_opener",
        "_sealed",
        "_silent",
        "_values",
        "broken",
    )

    def __init__(
        self, opener: Opener, ciphers: _Ciphers, binding: Binding, sealed: Sealed, values: dict[str, object]
    ) -> None:
        self._opener = opener
        self._ciphers = ciphers
        self._at = binding.time
        self._bound = _encode(binding)
        self._sealed = sealed
        self._nonce = _counted(sealed)
        self._values = values
        self._done: set[int] = set()
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

    @property
    def dummy(self) -> bool:
        """Whether this is no event at all, as far as can be known here: nothing in it is said."""
        self.all()
        return self._silent

    def all(self) -> dict[str, object]:
        """Everything that can be opened."""
        ciphers = self._ciphers
        if not self._done and ciphers.since <= self._at < ciphers.until and self._open_singles():
            self._done.update(ciphers.places)
        for part in ciphers.parts if len(self._done) < len(ciphers.parts) else ():
            if part.place not in self._done:
                self._open(part)
        return self._values

    def _open_singles(self) -> bool:
        """All groups at once, where each has one attribute; if one fails, none is opened."""
        ciphers, counted, bound, decode = self._ciphers, self._nonce, self._bound, _decode
        parts = self._sealed.parts
        try:
            opened = [
                decode(decrypt(counted, parts[place], bound))
                for place, decrypt in zip(ciphers.places, ciphers.decrypts, strict=True)
            ]
        except (InvalidTag, ValueError, msgspec.DecodeError, RecursionError):
            return False
        if not ciphers.kept:
            self._opener.keep(self._sealed, ciphers)
        for name, content in zip(ciphers.names, opened, strict=True):
            if len(content) != 1:
                self._silent = True
            elif content[0] is not None:
                self._values[name] = content[0]
        return True

    def _look(self, attribute: str) -> None:
        """Open the group of an attribute, unless that was done before."""
        part = self._ciphers.by_attribute.get(attribute)
        if part is not None and part.place not in self._done:
            self._open(part)

    def _open(self, part: _Part) -> None:
        self._done.add(part.place)
        names, ciphers = part.attributes, self._ciphers
        try:
            if part.decrypt is None or not part.since <= self._at < part.until:
                raise CannotOpen
            data = self._sealed.parts[part.place]
            values = _open(part.decrypt, self._nonce, data, self._bound, ciphers.sizes)
        except CannotOpen:
            self.broken += 1
            return
        if not ciphers.kept:
            self._opener.keep(self._sealed, ciphers)
        if len(values) == len(names) == 1:
            if values[0] is not None:
                self._values[names[0]] = values[0]
            return
        self._silent = self._silent or not values
        self._values.update(
            (name, value) for name, value in zip(names, values, strict=False) if value is not None
        )


def _open(
    decrypt: _Cipher, counted: bytes, data: bytes, bound: bytes, sizes: tuple[int, ...]
) -> tuple[object, ...]:
    try:
        plain = decrypt(counted, data, bound)
        return _decode(unpad(plain, sizes) if sizes else plain)
    except (InvalidTag, ValueError, msgspec.DecodeError, RecursionError):
        raise CannotOpen from None


def _column(names: tuple[str, ...], rows: Sequence[Mapping[str, object]]) -> list[object]:
    """The values of a group in all rows; None where there are none."""
    if len(names) == 1:
        name = names[0]
        return [row.get(name) for row in rows]
    return [values if any(each is not None for each in values) else None for values in _tuples(names, rows)]


def _tuples(names: tuple[str, ...], rows: Sequence[Mapping[str, object]]) -> Iterator[tuple[object, ...]]:
    return (tuple(map(row.get, names)) for row in rows)


def _spread(names: tuple[str, ...], column: tuple[object, ...], rows: Sequence[dict[str, object]]) -> None:
    """Put a column's values into the rows."""
    if len(names) == 1:
        name = names[0]
        for row, value in zip(rows, column, strict=True):
            if value is not None:
                row[name] = value
        return
    for row, values in zip(rows, column, strict=True):
        for name, value in zip(names, values if isinstance(values, list) else (), strict=False):
            if value is not None:
                row[name] = value


def _layout(keys: Iterable[DataKey]) -> bytes:
    return b"".join(key.label for key in keys)


def _salt(sealed: Sealed) -> bytes:
    if len(sealed.salt) != SALT_BYTES:
        raise CannotOpen
    return sealed.salt


def _counted(sealed: Sealed) -> bytes:
    if not 0 <= sealed.number < LIMIT:
        raise CannotOpen
    return nonce(sealed.number)
