"""The keys of a history: one, or while it goes over to another also those that it had before.

Which key seals is said by the database, not by the file of keys: the key that sealed the ends of chains seals what
follows. So whoever writes goes over in one transaction, and whoever has not heard of a new key writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from authz import AuthFabricError
from authz.predicate import Scalar
from pubsub_core.history.at_rest import EventCipher

Keys: TypeAlias = "Callable[[], tuple[bytes, ...]]"


class HistoryKeys:
    """Opens by any key that is known; the newest is the last."""

    def __init__(self, *ciphers: EventCipher, keys: Keys | None = None) -> None:
        """`keys` reads all keys anew, the newest last: one may have been added since."""
        self._ciphers = ciphers
        self._keys = keys

    @classmethod
    def of(cls, secrets: Iterable[bytes], keys: Keys | None = None) -> HistoryKeys:
        return cls(*map(EventCipher, secrets), keys=keys)

    @property
    def newest(self) -> EventCipher:
        return self._ciphers[-1]

    def opened(self, sealed: bytes, place: bytes) -> tuple[EventCipher, bytes] | None:
        """What was sealed for this place, and the key that opens it; None if none does."""
        for each in reversed(self._ciphers):
            body = each.open(sealed, place)
            if body is not None:
                return each, body
        return None

    def open(self, sealed: bytes, place: bytes) -> bytes | None:
        found = self.opened(sealed, place)
        return None if found is None else found[1]

    def blinds(self, attribute: str, value: Scalar) -> list[bytes]:
        """All that may stand for a value of an attribute."""
        return [each.blind(attribute, value) for each in self._ciphers]

    def look(self) -> bool:
        """Take up keys that were added since; says whether there are any. None is dropped: a page may be open."""
        try:
            secrets = self._keys() if self._keys is not None else ()
        except AuthFabricError:
            return False
        added = [each for each in map(EventCipher, secrets) if not self._has(each)]
        self._ciphers = (*self._ciphers, *added)
        return bool(added)

    def _has(self, cipher: EventCipher) -> bool:
        word = cipher.seal(b"", b"")
        return self.opened(word, b"") is not None
