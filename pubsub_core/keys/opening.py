"""Opening what others have sealed: as far as the keys go, and only what is asked for.

What cannot be opened reads as missing, whether for want of the key or because it was not sealed so. A sender's ciphers
are kept ready once something of it was opened.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec
from cryptography.exceptions import InvalidTag

from pubsub_core.keys.derivation import SALT_BYTES
from pubsub_core.keys.errors import CannotOpen
from pubsub_core.keys.nonces import LIMIT, nonce
from pubsub_core.keys.padding import unpad
from pubsub_core.keys.plan import Plan
from pubsub_core.keys.ring import KeyRing
from pubsub_core.keys.sealing import Binding, Cipher, Sealed

MAX_LAYOUTS = 1024
"""Maximum senders whose ciphers are cached for one type."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[object, ...]).decode


def open_one(
    ring: KeyRing, binding: Binding, sealed: Sealed, sizes: tuple[int, ...] = (), sender: str = ""
) -> tuple[object, ...]:
    """What was sealed for one group, by this broker. Raises CannotOpen, whatever is wrong."""
    (found,) = sealed.keys or ((),)
    key = ring.opening(*found, binding.time, sender) if len(found) == 2 else None
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

    def is_ready(self, sealed: Sealed) -> bool:
        """Whether something like this was opened before, with the keys that are held now."""
        return self._revision == self._ring.revision and (sealed.salt, sealed.layout) in self._ready

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
    decrypt: Cipher | None
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
            if len(content) == 1 and content[0] is not None:
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
        self._values.update(
            (name, value) for name, value in zip(names, values, strict=False) if value is not None
        )


def _open(
    decrypt: Cipher, counted: bytes, data: bytes, bound: bytes, sizes: tuple[int, ...]
) -> tuple[object, ...]:
    try:
        plain = decrypt(counted, data, bound)
        return _decode(unpad(plain) if sizes else plain)
    except (InvalidTag, ValueError, msgspec.DecodeError, RecursionError):
        raise CannotOpen from None


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


def _salt(sealed: Sealed) -> bytes:
    if len(sealed.salt) != SALT_BYTES:
        raise CannotOpen
    return sealed.salt


def _counted(sealed: Sealed) -> bytes:
    if not 0 <= sealed.number < LIMIT:
        raise CannotOpen
    return nonce(sealed.number)
