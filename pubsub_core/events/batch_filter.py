"""Conditions held against many events at once: a loop that is made for the condition, in place of a call for each."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache, partial
from typing import TypeAlias

import msgspec

from authz.predicate import Layout, Predicate, compile_sieve
from pubsub_core.events.event import Event

Encoded: TypeAlias = tuple[Event, msgspec.Raw]
"""An event with its bytes."""

_PLAIN: Layout[Event] = Layout({"event": "it.attributes"})
_ENCODED: Layout[Encoded] = Layout({"event": "it[0].attributes"})
_sieve = lru_cache(1024)(partial(compile_sieve, layout=_PLAIN))
_sieve_encoded = lru_cache(1024)(partial(compile_sieve, layout=_ENCODED))


def sift(predicate: Predicate, events: Iterable[Event | None]) -> list[Event | None]:
    """The events, with None in place of those of which the predicate does not hold."""
    return _sieve(predicate)(events)


def select(predicate: Predicate, events: Iterable[Encoded]) -> list[Encoded]:
    """Those of which the predicate holds."""
    return list(filter(None, _sieve_encoded(predicate)(events)))
