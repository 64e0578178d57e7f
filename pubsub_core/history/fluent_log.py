"""The marks of fluents in a history: when each began and ended, so that a restart forgets none of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from pubsub_core.rules.observer import Mark

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Mark).decode


class FluentLog:
    """Hands marks on to be stored, and has those that were."""

    def __init__(self, stored: Iterable[bytes], store: Callable[[bytes], None]) -> None:
        self._stored = stored
        self._store = store

    def append(self, mark: Mark) -> None:
        self._store(_encode(mark))

    def marks(self) -> Iterator[Mark]:
        return map(_decode, self._stored)
