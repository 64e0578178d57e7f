"""Attributes from a service that answers on the bus."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping

from authz import PublicKey
from authz.predicate import Path
from bus.errors import BusError
from bus.nats import Connection
from bus.services import PER_MESSAGE, EntityAttributes, ask_attributes
from bus.wire import DEFAULT_DOMAIN
from pdp.attributes.providers import Known, ProviderFailed
from pdp.bundle import Root


class BusProvider:
    """An attribute service by its name and its key."""

    problem = ""
    """It is asked anew each time."""

    def __init__(
        self,
        connection: Connection,
        name: str,
        key: PublicKey,
        provides: frozenset[Path],
        clock: Callable[[], float],
        seconds: float,
        domain: str = DEFAULT_DOMAIN,
    ) -> None:
        self.name = name
        self.provides = provides
        self._connection = connection
        self._key = key
        self._clock = clock
        self._seconds = seconds
        self._domain = domain

    async def look_up(self, root: Root, ids: frozenset[str]) -> Mapping[str, Known]:
        names = sorted(str(path.keys[0]) for path in self.provides if path.root == root)
        asked = self._clock()

        async def ask(several: list[str]) -> Mapping[str, EntityAttributes]:
            return await ask_attributes(
                self._connection, self.name, self._key, root, several, names, self._seconds, self._domain
            )

        try:
            answers = await asyncio.gather(*map(ask, _parts(sorted(ids))))
        except BusError as error:
            raise ProviderFailed(self.name, str(error)) from None
        return {
            name: Known(
                found.attributes, asked + found.seconds if found.seconds is not None else float("inf")
            )
            for answer in answers
            for name, found in answer.items()
        }


def _parts(ids: list[str]) -> Iterator[list[str]]:
    return (ids[start : start + PER_MESSAGE] for start in range(0, len(ids), PER_MESSAGE))
