"""Decision certificates: an answer holds for every request in which the facts that implied it hold.

Invariant: an entry stamped with an epoch carries the effect that every request satisfying its literals has
under that epoch. It is used for a request only if no change since then touches that very request.

A look-up does not try certificates one by one: for each shape, of which policies give rise to few, the
request's own values say where to look.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from authz import Decision, Inference, Request
from authz.errors import InvalidPredicate
from authz.predicate import Literal, compile_predicate
from sdp_cache.inference.certificate_index import Part, Place, Shape, file
from sdp_cache.inference.clock_cache import WeightedClockCache, places
from sdp_cache.validity import ChangeLog

METHOD = "certificate"
MAX_SHAPES = 128
MAX_TOGETHER = 32
"""How many certificates are kept in one place, differing only in what cannot be looked up."""

MAX_BYTES = 4096
"""A certificate that is longer, as it is written on the bus, says too much to be of use for other requests."""

_encode = msgspec.msgpack.Encoder().encode

Test: TypeAlias = Callable[[Request], bool]


class _Entry:
    __slots__ = ("decision", "epoch", "tests", "until", "weight")

    def __init__(self, decision: Decision, epoch: int, tests: tuple[Test, ...], weight: int) -> None:
        self.decision = decision
        self.epoch = epoch
        self.tests = tests
        self.until = float("inf") if decision.expires is None else decision.expires
        self.weight = weight


class _Bucket:
    __slots__ = ("entries", "used", "weight")

    def __init__(self, entries: tuple[_Entry, ...]) -> None:
        self.entries = entries
        self.used = False
        self.weight = sum(each.weight for each in entries)


class CertificateCache:
    """Certificates, indexed by the values they ask for, in at most `size` places; too many shapes start it anew."""

    __slots__ = ("_buckets", "_log", "_shapes")

    def __init__(self, log: ChangeLog, size: int = 100_000) -> None:
        self._log = log
        self._shapes: dict[tuple[Part, ...], Shape] = {}
        self._buckets: WeightedClockCache[Place, _Bucket] = WeightedClockCache(size)

    def __len__(self) -> int:
        return len(self._buckets)

    def infer(self, request: Request, now: float) -> Decision | None:
        """The decision of some certificate that holds of the request."""
        for shape in self._shapes.values():
            for place in shape.places(request):
                bucket = self._buckets[place]
                if bucket is not None:
                    decision = self._find(bucket, request, now)
                    if decision is not None:
                        return decision
        return None

    def learn(self, request: Request, decision: Decision, answer: str) -> None:
        """File the certificate of an answer given under the current epoch, if it holds of its own request."""
        if decision.certificate is None:
            return
        written = _encode(decision.certificate)
        if len(written) > MAX_BYTES:
            return
        filing = file(decision.certificate)
        shape = self._shapes.get(filing.parts) or Shape(len(self._shapes), filing.parts)
        filed = set(map(shape.place, filing.places))
        try:
            tests = tuple(map(_test, filing.rest))
        except InvalidPredicate:
            return
        if filed.isdisjoint(shape.places(request)) or not all(test(request) for test in tests):
            return
        marked = replace(decision, certificate=None, inferred=Inference(METHOD, (answer,)))
        weight = places((written, decision.detail, *decision.policies, answer))
        entry = _Entry(marked, self._log.epoch, tests, weight)
        self._shapes[filing.parts] = shape
        for place in filed:
            self._add(place, entry)
        if len(self._shapes) > MAX_SHAPES:
            self.clear()

    def clear(self) -> None:
        self._shapes.clear()
        self._buckets.clear()

    def _find(self, bucket: _Bucket, request: Request, now: float) -> Decision | None:
        epoch = self._log.epoch
        for entry in bucket.entries:
            if not now < entry.until or not all(test(request) for test in entry.tests):
                continue
            if entry.epoch == epoch:
                bucket.used = True
                return entry.decision
            if not self._log.touched(request, entry.epoch):
                bucket.used = True
                return replace(entry.decision, epoch=epoch)
        return None

    def _add(self, place: Place, entry: _Entry) -> None:
        bucket = self._buckets[place]
        # Whatever is in this place satisfies what was filed, so entries that test alike say the same.
        others = [each for each in bucket.entries if each.tests != entry.tests] if bucket is not None else []
        self._buckets.keep(place, _Bucket((entry, *others[: MAX_TOGETHER - 1])))


@lru_cache(maxsize=65536)
def _test(literal: Literal) -> Test:
    return compile_predicate(literal.predicate)
