"""The Enforcer: what a service asks before it lets anything happen."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable

from authz import Decision, Entity, Identity, Request
from authz.request import Attributes
from bus.connection import Connection, configured_url
from bus.scopes import DEFAULT_DOMAIN
from pep.asker import Asker
from pep.errors import AccessDenied
from pep.strategy import Strategy

DEFAULT_URL = "nats://127.0.0.1:4222"
DEFAULT_SECONDS = 1.0


class Enforcer:
    """Asks the fabric whether a subject may do an action to an object.

    `check` always returns a Decision and never raises because the fabric fails: that is a denial with its reason.
    `require` raises AccessDenied unless allowed. Both raise InvalidRequest for what cannot be asked at all.
    """

    def __init__(self, asker: Asker) -> None:
        self.asker = asker

    @classmethod
    @contextlib.asynccontextmanager
    async def connect(
        cls,
        url: str | None = None,
        *,
        domain: str = DEFAULT_DOMAIN,
        strategy: Strategy | str = Strategy.HEDGE,
        deadline: float = DEFAULT_SECONDS,
        identity: Identity | None = None,
        name: str = "pep",
        connect_seconds: float = 5.0,
    ) -> AsyncIterator[Enforcer]:
        """Connect to the fabric: `async with Enforcer.connect() as pep`.

        The server is the one given, or named by AUTHFABRIC_NATS_URL, or on this machine's usual port. `deadline` is
        how many seconds a check may take, unless a call says otherwise.
        """
        url = url or configured_url() or DEFAULT_URL
        async with Connection(url, name=name, identity=identity, connect_seconds=connect_seconds) as bus:
            asker = Asker(bus, domain=domain, strategy=Strategy(strategy), seconds=deadline)
            await asker.start()
            try:
                yield cls(asker)
            finally:
                await asker.stop()

    async def check(
        self,
        subject: str | Entity | Request,
        object: str | Entity = "",  # noqa: A002 - the domain's own word
        action: str | Entity = "",
        *,
        context: Attributes | None = None,
        deadline: float | None = None,
        strategy: Strategy | None = None,
    ) -> Decision:
        """Ask one question, given as a Request or as subject, object and action."""
        request = subject if isinstance(subject, Request) else Request.of(subject, object, action, context)
        return await self.asker.decide(request, deadline, strategy)

    async def require(
        self,
        subject: str | Entity | Request,
        object: str | Entity = "",  # noqa: A002 - the domain's own word
        action: str | Entity = "",
        *,
        context: Attributes | None = None,
        deadline: float | None = None,
        strategy: Strategy | None = None,
    ) -> Decision:
        """Like `check`, but raise AccessDenied unless the answer is allow."""
        request = subject if isinstance(subject, Request) else Request.of(subject, object, action, context)
        decision = await self.asker.decide(request, deadline, strategy)
        if not decision.allowed:
            raise AccessDenied(request, decision)
        return decision

    async def check_many(
        self,
        requests: Iterable[Request | tuple[str, str, str]],
        *,
        deadline: float | None = None,
        strategy: Strategy | None = None,
    ) -> list[Decision]:
        """Ask many questions at once; the answers come in the same order."""
        asked = [r if isinstance(r, Request) else Request.of(*r) for r in requests]
        for request in asked:
            request.validate()
        return list(await asyncio.gather(*[self.asker.decide(r, deadline, strategy) for r in asked]))
