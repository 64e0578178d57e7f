"""Attributes that a PDP looks up for itself: asked for in batches, remembered for a while, waited for but not long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from cachetools import LRUCache

from authz import AuthFabricError
from authz.predicate import Path
from authz.request import Attributes
from bus.runtime import TRACES, result_within
from pdp.bundle import Root

REMEMBERED = 100_000
"""Maximum entities whose attributes are cached, for each provider."""
PAUSE_SECONDS = 1.0
"""Seconds without requests after a failure, so that a provider that is away does not delay every decision."""


class ProviderFailed(AuthFabricError):
    """Attributes that could not be had: `provider` is whose, `problem` says why."""

    def __init__(self, provider: str, problem: str) -> None:
        super().__init__(f"the attribute provider `{provider}` failed: {problem}")
        self.provider = provider
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Known:
    """What a provider knows of one entity, and until when (Unix time) that may be relied on."""

    attributes: Attributes
    until: float


class Provider(Protocol):
    """Where attributes come from."""

    @property
    def name(self) -> str: ...

    @property
    def provides(self) -> frozenset[Path]:
        """The attributes it can be asked for."""
        ...

    @property
    def problem(self) -> str:
        """Why it answers from what it knew before; empty if it does not."""
        ...

    async def look_up(self, root: Root, ids: frozenset[str]) -> Mapping[str, Known]:
        """What is known of these entities; who is not in the answer has no attributes. Raises ProviderFailed.

        For the root `context` there is one entity, with the id "".
        """
        ...


class CachingProvider:
    """A provider behind a memory. What several ask for at once is asked once."""

    def __init__(
        self,
        provider: Provider,
        clock: Callable[[], float],
        seconds: float,
        lifetime: float,
        under: str = "",
    ) -> None:
        """An answer is waited for at most `seconds`, and remembered for at most `lifetime` seconds.

        Only entities are asked about whose names begin with `under`.
        """
        self.under = under
        self.name = provider.name
        self.provides = provider.provides
        self._provider = provider
        self._clock = clock
        self._seconds = seconds
        self._lifetime = lifetime
        self._memory: LRUCache[tuple[str, str], Known] = LRUCache(REMEMBERED)
        self._asked: dict[tuple[str, str], asyncio.Task[Mapping[str, Known]]] = {}
        self._paused_until = float("-inf")
        self._problem = ""
        self.lookups = 0
        """How often the provider was asked."""
        self.failures = 0

    @property
    def behind(self) -> bool:
        """Whether the provider answers from what it knew before."""
        return bool(self._provider.problem)

    async def look_up(self, root: Root, ids: Iterable[str]) -> dict[str, Known]:
        """What is known of each of these entities. Raises ProviderFailed."""
        now = self._clock()
        found: dict[str, Known] = {}
        waiting: dict[str, asyncio.Task[Mapping[str, Known]]] = {}
        missing: set[str] = set()
        for each in ids:
            known = self._memory.get((root, each))
            if known is not None and now < known.until:
                found[each] = known
            elif (task := self._asked.get((root, each))) is not None:
                waiting[each] = task
            else:
                missing.add(each)
        if missing:
            task = self._ask(root, frozenset(missing), now)
            waiting |= dict.fromkeys(missing, task)
        for each, task in waiting.items():
            found[each] = (await asyncio.shield(task))[each]
        return found

    def forget(self, root: str, ids: Iterable[str]) -> None:
        """Ask anew about these entities. What is being asked about them now is not remembered."""
        for each in ids:
            self._memory.pop((root, each), None)
            self._asked.pop((root, each), None)

    def _ask(self, root: Root, ids: frozenset[str], now: float) -> asyncio.Task[Mapping[str, Known]]:
        if now < self._paused_until:
            raise ProviderFailed(self.name, self._problem)
        task = asyncio.get_running_loop().create_task(self._fetch(root, ids, now))
        for each in ids:
            self._asked[root, each] = task
        task.add_done_callback(lambda done: self._end(root, ids, done))
        return task

    async def _fetch(self, root: Root, ids: frozenset[str], now: float) -> Mapping[str, Known]:
        self.lookups += 1
        about: dict[str, str | int] = {"authfabric.provider": self.name, "authfabric.entities": len(ids)}
        span = TRACES.begin("authfabric.attributes", **about) if TRACES.on and TRACES.draw() else None
        try:
            answer = await result_within(self._provider.look_up(root, ids), self._seconds)
        except TimeoutError:
            raise ProviderFailed(self.name, f"no answer within {self._seconds:g} s") from None
        finally:
            if span is not None:
                span.end()
        # The lifetime runs from when it was asked for: whatever changed since then is not in the answer.
        latest = now + self._lifetime
        nothing = Known({}, latest)
        return {each: _until(answer.get(each, nothing), latest) for each in ids}

    def _end(self, root: Root, ids: frozenset[str], task: asyncio.Task[Mapping[str, Known]]) -> None:
        current = {each for each in ids if self._asked.get((root, each)) is task}
        for each in current:
            del self._asked[root, each]
        if task.cancelled():
            return
        if (error := task.exception()) is not None:
            self.failures += 1
            self._problem = error.problem if isinstance(error, ProviderFailed) else type(error).__name__
            self._paused_until = self._clock() + PAUSE_SECONDS
            return
        for each in current:  # of the others it was said meanwhile that they have changed
            self._memory[root, each] = task.result()[each]


def _until(known: Known, latest: float) -> Known:
    return known if known.until <= latest else Known(known.attributes, latest)
