"""The Enforcer for threaded services: the same core on an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, TypeVar, Unpack

from authz import Decision, Entity, Request
from authz.explanation import Explanation
from authz.request import Attributes
from authz.scope import Scope
from bus.wire import SearchPage, SearchQuery
from pep.enforcer import DEFAULT_SECONDS, SEARCH_SECONDS, Enforcer
from pep.options import CheckOptions, ConnectOptions, ExplainOptions, LocalOptions, ManyOptions

if TYPE_CHECKING:
    from pep.local import Policies

Result = TypeVar("Result")

LOOK_SECONDS = 1.0
"""How often a waiting thread looks whether the event loop is still there."""


class LoopThread:
    """An event loop that runs in a thread of its own, for other threads to run coroutines on."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="authfabric-pep", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[object, object, Result]) -> Result:
        """Run a coroutine on the loop and wait for its result."""
        try:
            if threading.current_thread() is self._thread:
                raise RuntimeError(
                    "a SyncEnforcer would wait for itself here: use Enforcer inside the event loop"
                )
            if not self._thread.is_alive():
                raise RuntimeError("the SyncEnforcer is closed, or belongs to the parent of this process")
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError:
            coroutine.close()
            raise
        while True:
            with contextlib.suppress(TimeoutError):
                return future.result(LOOK_SECONDS)
            if future.done():  # the work itself raised it
                return future.result()
            if not self._thread.is_alive():
                raise RuntimeError("the SyncEnforcer was closed meanwhile")

    def close(self) -> None:
        self.run(_finish_others())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class SyncEnforcer:
    """Asks like Enforcer, but blocks the calling thread. Any number of threads may share one."""

    def __init__(self, enforcer: Enforcer, loop: LoopThread) -> None:
        self._enforcer = enforcer
        self.obligations = enforcer.obligations
        self.obligation = enforcer.obligation
        """Registers the handler of an obligation: `@pep.obligation("mask")`."""
        self._loop = loop

    @classmethod
    @contextlib.contextmanager
    def connect(cls, url: str | None = None, **options: Unpack[ConnectOptions]) -> Iterator[SyncEnforcer]:
        """Connect to the fabric: `with SyncEnforcer.connect() as pep`. The arguments mean what Enforcer's do."""
        with cls._opened(Enforcer.connect(url, **options)) as pep:
            yield pep

    @classmethod
    @contextlib.contextmanager
    def local(cls, policies: Policies, **options: Unpack[LocalOptions]) -> Iterator[SyncEnforcer]:
        """Decide in this process: `with SyncEnforcer.local(Path("policies")) as pep`. As Enforcer's."""
        with cls._opened(Enforcer.local(policies, **options)) as pep:
            yield pep

    @classmethod
    @contextlib.contextmanager
    def _opened(cls, opening: AbstractAsyncContextManager[Enforcer]) -> Iterator[SyncEnforcer]:
        with contextlib.closing(LoopThread()) as loop:
            enforcer = loop.run(opening.__aenter__())
            try:
                yield cls(enforcer, loop)
            finally:
                loop.run(opening.__aexit__(None, None, None))

    def check(
        self,
        subject: str | Entity | Request,
        object: str | Entity = "",
        action: str | Entity = "",
        **options: Unpack[CheckOptions],
    ) -> Decision:
        """Ask one question, given as a Request or as subject, object and action."""
        return self._loop.run(self._enforcer.check(subject, object, action, **options))

    def require(
        self,
        subject: str | Entity | Request,
        object: str | Entity = "",
        action: str | Entity = "",
        **options: Unpack[CheckOptions],
    ) -> Decision:
        """Like `check`, but raise AccessDenied unless the answer is allow."""
        return self._loop.run(self._enforcer.require(subject, object, action, **options))

    def check_many(
        self, requests: Iterable[Request | tuple[str, str, str]], **options: Unpack[ManyOptions]
    ) -> list[Decision]:
        """Ask many questions at once; the answers come in the same order."""
        return self._loop.run(self._enforcer.check_many(requests, **options))

    def search(self, query: SearchQuery, *, deadline: float = SEARCH_SECONDS) -> SearchPage:
        """One page of who may, what may be, or by which action, among the entities that the PDPs know."""
        return self._loop.run(self._enforcer.search(query, deadline=deadline))

    def filter(
        self,
        subject: str | Entity,
        action: str | Entity,
        candidates: Iterable[str | Entity],
        *,
        context: Attributes | None = None,
        deadline: float | None = None,
    ) -> list[str | Entity]:
        """Those candidates to which the subject may do the action, in order. What is not decided is left out."""
        asked = self._enforcer.filter(subject, action, candidates, context=context, deadline=deadline)
        return self._loop.run(asked)

    def scope(
        self,
        subject: str | Entity,
        action: str | Entity,
        under: str,
        *,
        context: Attributes | None = None,
        deadline: float = DEFAULT_SECONDS,
    ) -> Scope:
        """All objects below a name to which the subject may do the action, as a predicate. Raises ScopeRefused."""
        asked = self._enforcer.scope(subject, action, under, context=context, deadline=deadline)
        return self._loop.run(asked)

    def explain(
        self,
        subject: str | Entity | Request,
        object: str | Entity = "",
        action: str | Entity = "",
        **options: Unpack[ExplainOptions],
    ) -> Explanation:
        """Why the answer is what it is."""
        return self._loop.run(self._enforcer.explain(subject, object, action, **options))


async def _finish_others() -> None:
    """Let whoever still waits have the answer that there is no connection any more."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        await asyncio.wait(others, timeout=LOOK_SECONDS)
