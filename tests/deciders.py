"""What decides in tests: by a rule one can see at a glance, and as slowly or as badly as a test wants."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from authz import Decision, Reason, Request


class Readers:
    """Allows `read`, denies all else, and remembers what it was asked."""

    def __init__(self, name: str = "readers") -> None:
        self.name = name
        self.asked: list[Request] = []
        self.batches: list[int] = []

    async def decide_many(self, requests: Sequence[Request]) -> list[Decision]:
        self.asked.extend(requests)
        self.batches.append(len(requests))
        return [self.decide(request) for request in requests]

    def decide(self, request: Request) -> Decision:
        if request.action.id == "read":
            return Decision(True, policies=(self.name,))
        return Decision(False, Reason.NO_POLICY)


class Gated(Readers):
    """Decides like Readers, but only while its gate is open."""

    def __init__(self, name: str = "gated") -> None:
        super().__init__(name)
        self.gate = asyncio.Event()
        self.entered = asyncio.Event()

    async def decide_many(self, requests: Sequence[Request]) -> list[Decision]:
        self.entered.set()
        await self.gate.wait()
        return await super().decide_many(requests)
