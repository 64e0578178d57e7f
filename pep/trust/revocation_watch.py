"""What was revoked, as far as it concerns the PDPs that a PEP hears of.

For each key that could take back a link of a PDP's chain, the notices of that key are read, and nobody else's:
strangers may fill the store, and nothing is missed. Until they have been read, or while they cannot be, nobody new
is believed who rests on that key; those who are known already stay.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Self

from authz import PublicKey
from bus.errors import BusError
from bus.feeds import RETRY_SECONDS, RevocationFeed
from bus.nats import Connection
from bus.runtime import begin_work
from pep.trust.authenticity import Authenticity

MAX_FOLLOWED = 64
"""Maximum keys followed on the word of one that a root empowered: its flood takes no room from others."""

_log = logging.getLogger("authfabric.pep")


class _Followed:
    """One key whose revocations are read."""

    def __init__(self, issuer: PublicKey, connection: Connection, authenticity: Authenticity) -> None:
        self._issuer = issuer
        self._connection = connection
        self._authenticity = authenticity
        self.feed = RevocationFeed(connection, authenticity.revoke, issuer)
        self.work = begin_work(self._follow)

    async def _follow(self) -> None:
        while True:
            with contextlib.suppress(BusError):
                async with self.feed as feed:
                    await feed.read.wait()
                    self._authenticity.ask_who()  # those who introduced themselves too early
                    await asyncio.Event().wait()
            await asyncio.sleep(RETRY_SECONDS)


class RevocationWatch:
    """`async with RevocationWatch(bus, authenticity)`: from then on PDPs can be introduced."""

    def __init__(
        self, connection: Connection, authenticity: Authenticity, roots: frozenset[PublicKey]
    ) -> None:
        self._connection = connection
        self._authenticity = authenticity
        self._roots = roots
        self._followed: dict[PublicKey, dict[PublicKey, _Followed]] = {}
        self._ending: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._authenticity.watch = self
        for root in self._roots:
            self.follow(root, root)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._authenticity.watch = None
        for group in self._followed.values():
            for each in group.values():
                await each.work.end()
        await asyncio.gather(*self._ending)

    async def first_look(self, seconds: float) -> None:
        """Wait until it is known what the roots have revoked; go on without if the store is silent for `seconds`."""
        await asyncio.gather(
            *(each.feed.first_look(seconds) for root in self._roots for each in self._followed[root].values())
        )

    @property
    def unread(self) -> list[str]:
        """Why it is not known what some keys have revoked, each named once; nothing if it is known of all."""
        feeds = (each.feed for group in self._followed.values() for each in group.values())
        return sorted({feed.problem for feed in feeds if not feed.read.is_set()})

    def follow(self, issuer: PublicKey, by: PublicKey) -> bool:
        """Whether it is known what a key has revoked; otherwise that is read from now on, on the word of another."""
        group = self._followed.setdefault(by, {})
        followed = group.get(issuer)
        if followed is None:
            if by not in self._roots and len(group) >= MAX_FOLLOWED:
                self._forget(group, next(iter(group)), by)
            followed = group[issuer] = _Followed(issuer, self._connection, self._authenticity)
        return followed.feed.read.is_set()

    def _forget(self, group: dict[PublicKey, _Followed], issuer: PublicKey, by: PublicKey) -> None:
        """Make room for another key that the same one brings in."""
        _log.warning(
            "`%s` names more than %d keys in the chains of PDPs: the oldest is forgotten", by, MAX_FOLLOWED
        )
        ending = asyncio.create_task(group.pop(issuer).work.end())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)
        if not any(issuer in each for each in self._followed.values()):
            self._authenticity.deciders.forget(issuer)
