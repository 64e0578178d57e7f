"""The Enforcer for threaded services: the same core on an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from authz import Decision, Entity, Request
from authz.request import Attributes
from bus.credentials import Credentials
from bus.scopes import DEFAULT_DOMAIN
from pep.enforcer import DEFAULT_LEASE, DEFAULT_RECYCLING, DEFAULT_SECONDS, Enforcer
from pep.strategy import Strategy
from pep.trust_store import Trust
from sdp_cache import LeaseRules, Recycling

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
        self._loop = loop

    @classmethod
    @contextlib.contextmanager
    def connect(
        cls,
        url: str | None = None,
        *,
        domain: str = DEFAULT_DOMAIN,
        strategy: Strategy | str = Strategy.HEDGE,
        deadline: float = DEFAULT_SECONDS,
        credentials: Credentials | None = None,
        name: str = "pep",
        connect_seconds: float = 5.0,
        trust: Trust = None,
        recycling: Recycling | None = DEFAULT_RECYCLING,
        lease: LeaseRules = DEFAULT_LEASE,
        snapshot: Path | None = None,
        learn: Sequence[str] = (),
        audit: bool | None = None,
    ) -> Iterator[SyncEnforcer]:
        """Connect to the fabric: `with SyncEnforcer.connect() as pep`. The arguments mean what Enforcer's do."""
        with contextlib.closing(LoopThread()) as loop:
            connecting = Enforcer.connect(
                url,
                domain=domain,
                strategy=strategy,
                deadline=deadline,
                credentials=credentials,
                name=name,
                connect_seconds=connect_seconds,
                trust=trust,
                recycling=recycling,
                lease=lease,
                snapshot=snapshot,
                learn=learn,
                audit=audit,
            )
            enforcer = loop.run(connecting.__aenter__())
            try:
                yield cls(enforcer, loop)
            finally:
                loop.run(connecting.__aexit__(None, None, None))

    def check(
        self,
        subject: str | Entity | Request,
        object: str | Entity = "",
        action: str | Entity = "",
        *,
        context: Attributes | None = None,
        deadline: float | None = None,
        strategy: Strategy | str | None = None,
        at_least: int = 0,
    ) -> Decision:
        """Ask one question, given as a Request or as subject, object and action."""
        request = subject if isinstance(subject, Request) else Request.of(subject, object, action, context)
        check = self._enforcer.check
        return self._loop.run(check(request, deadline=deadline, strategy=strategy, at_least=at_least))

    def require(
        self,
        subject: str | Entity | Request,
        object: str | Entity = "",
        action: str | Entity = "",
        *,
        context: Attributes | None = None,
        deadline: float | None = None,
        strategy: Strategy | str | None = None,
        at_least: int = 0,
    ) -> Decision:
        """Like `check`, but raise AccessDenied unless the answer is allow."""
        request = subject if isinstance(subject, Request) else Request.of(subject, object, action, context)
        require = self._enforcer.require
        return self._loop.run(require(request, deadline=deadline, strategy=strategy, at_least=at_least))

    def check_many(
        self,
        requests: Iterable[Request | tuple[str, str, str]],
        *,
        deadline: float | None = None,
        strategy: Strategy | str | None = None,
        at_least: int = 0,
    ) -> list[Decision]:
        """Ask many questions at once; the answers come in the same order."""
        check_many = self._enforcer.check_many
        return self._loop.run(check_many(requests, deadline=deadline, strategy=strategy, at_least=at_least))


async def _finish_others() -> None:
    """Let whoever still waits have the answer that there is no connection any more."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        await asyncio.wait(others, timeout=LOOK_SECONDS)
