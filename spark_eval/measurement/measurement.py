"""What an experiment measures at a time: one that fails can be repeated, or left out, without the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass

import pyarrow as pa

from spark_eval.errors import EvaluationError
from spark_eval.runtime import Advance

STALLED_SECONDS = 600.0
"""How long nothing may be answered: a PDP that starts with others may take minutes."""


class Stalled(EvaluationError):
    """A measurement in which nothing happened any more."""

    def __init__(self) -> None:
        super().__init__(f"nothing was done for {STALLED_SECONDS:g} s")


@dataclass(frozen=True, slots=True)
class Measurement:
    """`run` gives the trace, and tells how much is done."""

    name: str
    run: Callable[[Advance], Coroutine[object, object, pa.Table]]

    async def watched(self, advance: Advance) -> pa.Table:
        """Run it for as long as it goes on. Raises Stalled."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(STALLED_SECONDS) as limit:

                def advancing(count: int) -> None:
                    limit.reschedule(loop.time() + STALLED_SECONDS)
                    advance(count)

                return await self.run(advancing)
        except TimeoutError:
            if limit.expired():
                raise Stalled from None
            raise
