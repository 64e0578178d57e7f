"""The Enforcer for threaded services: the same core on an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from authz import Decision, Entity, Request
from authz.request import Attributes
from bus.scopes import DEFAULT_DOMAIN
from pep.enforcer import DEFAULT_LEASE, DEFAULT_RECYCLING, DEFAULT_SECONDS, Enforcer
from pep.strategy import Strategy
from pep.trust_store import Keys
from sdp_cache import LeaseRules, Recycling

Result = TypeVar("Result")


class SyncEnforcer:
    """Asks like Enforcer, but blocks the calling thread. Any number of threads may share one."""

    def __init__(self, enforcer: Enforcer, loop: asyncio.AbstractEventLoop) -> None:
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
        name: str = "pep",
        connect_seconds: float = 5.0,
        trust: Keys | None = None,
        recycling: Recycling | None = DEFAULT_RECYCLING,
        lease: LeaseRules = DEFAULT_LEASE,
        snapshot: Path | None = None,
    ) -> Iterator[SyncEnforcer]:
        """Connect to the fabric: `with SyncEnforcer.connect() as pep`. The arguments mean what Enforcer's do."""
        with _event_loop() as loop, contextlib.ExitStack() as stack:
            connecting = Enforcer.connect(
                url,
                domain=domain,
                strategy=strategy,
                deadline=deadline,
                name=name,
                connect_seconds=connect_seconds,
                trust=trust,
                recycling=recycling,
                lease=lease,
                snapshot=snapshot,
            )
            enforcer = _run(loop, connecting.__aenter__())
            stack.callback(lambda: _run(loop, connecting.__aexit__(None, None, None)))
            yield cls(enforcer, loop)

    def check(
        self,
        subject: str | Entity | Request,
        object: str | Entity = "",  # noqa: A002 - the domain's own word
        action: str | Entity = "",
        *,
        context: Attributes | None = None,
        deadline: float | None = None,
        strategy: Strategy | None = None,
        at_least: int = 0,
    ) -> Decision:
        """Ask one question, given as a Request or as subject, object and action."""
        request = subject if isinstance(subject, Request) else Request.of(subject, object, action, context)
        check = self._enforcer.check
        return self._call(lambda: check(request, deadline=deadline, strategy=strategy, at_least=at_least))

    def require(
        self,
        subject: str | Entity | Request,
        object: str | Entity = "",  # noqa: A002 - the domain's own word
        action: str | Entity = "",
        *,
        context: Attributes | None = None,
        deadline: float | None = None,
        strategy: Strategy | None = None,
        at_least: int = 0,
    ) -> Decision:
        """Like `check`, but raise AccessDenied unless the answer is allow."""
        request = subject if isinstance(subject, Request) else Request.of(subject, object, action, context)
        require = self._enforcer.require
        return self._call(lambda: require(request, deadline=deadline, strategy=strategy, at_least=at_least))

    def check_many(
        self,
        requests: Iterable[Request | tuple[str, str, str]],
        *,
        deadline: float | None = None,
        strategy: Strategy | None = None,
        at_least: int = 0,
    ) -> list[Decision]:
        """Ask many questions at once; the answers come in the same order."""
        check_many = self._enforcer.check_many
        return self._call(
            lambda: check_many(requests, deadline=deadline, strategy=strategy, at_least=at_least)
        )

    def _call(self, make: Callable[[], Coroutine[object, object, Result]]) -> Result:
        if threading.get_ident() == getattr(self._loop, "_thread_id", None):
            raise RuntimeError(
                "a SyncEnforcer would wait for itself here: use Enforcer inside the event loop"
            )
        return _run(self._loop, make())


@contextlib.contextmanager
def _event_loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="authfabric-pep", daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _run(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[object, object, Result]) -> Result:
    return asyncio.run_coroutine_threadsafe(coroutine, loop).result()
