"""Giving a store back what it has lost: releases that replicas hold, a file keeps, or its second record names.

Invariant: nothing goes back. A release returns as it was signed, where the store has nothing else in its place; where
both have gone on, or releases between are lost for good, a new release joins the lines under a number of its own.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from authz import AuthFabricError, Identity, PublicKey
from authz.release import Release, Released, sign_release
from bus.errors import ContentMissing
from bus.feeds import Offer, Survey, fetch_content, survey
from bus.nats import Connection
from bus.stores import ReleaseStore
from pdp.bundle import Bundle, BundleCache, PolicySet


class Side(enum.StrEnum):
    """Whose policies count where the lines have parted."""

    HELD = "held"
    STORE = "store"


class HistoriesDiverged(AuthFabricError):
    """The store and somebody else have different releases under one number: whose count is for people to say."""

    def __init__(self, survey: Survey) -> None:
        held = "; ".join(f"{each.released} by {', '.join(each.members)}" for each in survey.lost)
        super().__init__(
            f"the store has {survey.newest}, and others have {held}: say whose policies count from now on, as a new"
            " release after all of them, by `--join held` or `--join store`"
        )
        self.survey = survey


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done: a release is put back as it is, or a new one joins those named."""

    put_back: Offer | None = None
    join: Released | None = None
    """The release whose policies count."""
    joined: tuple[str, ...] = ()
    """The hashes of those that it follows."""
    epoch: int = 0
    """The highest number among them."""


def plan(found: Survey, join: Side | None = None) -> Plan:
    """How to give the store what it has lost. Raises HistoriesDiverged if somebody must choose, and nobody has."""
    lost, newest = found.lost, found.newest
    if not lost:
        return Plan()
    best = lost[0].released
    others = [each.released for each in lost[1:] if each.released.epoch == best.epoch]
    parted = bool(others) or (newest is not None and best.epoch <= newest.epoch)
    parted |= newest is not None and best.epoch == newest.epoch + 1 and not best.follows(newest)
    tips = [*(each.released for each in lost), *([newest] if newest is not None else [])]
    joined, epoch = tuple(each.hash for each in tips), max(each.epoch for each in tips)
    if parted:
        if join is None or (join is Side.HELD and others):
            raise HistoriesDiverged(found)
        chosen = newest if join is Side.STORE and newest is not None else best
        return Plan(join=chosen, joined=joined, epoch=epoch)
    if newest is None or best.follows(newest):
        return Plan(put_back=lost[0])
    return Plan(join=best, joined=joined, epoch=epoch)


class Restorer:
    """Restores the store of one domain; what joins lines is signed by one key."""

    def __init__(
        self,
        connection: Connection,
        domain: str,
        identity: Identity,
        trusted: Collection[PublicKey],
        clock: Callable[[], float],
    ) -> None:
        self._connection = connection
        self._store = ReleaseStore(connection)
        self._domain = domain
        self._identity = identity
        self._trusted = {*trusted, identity.public}
        self._clock = clock
        self._contents: dict[str, bytes] = {}

    async def survey(self, file: Path | None = None) -> Survey:
        """What there is; with what a replica keeps in a file. Raises ReleaseRefused for another file."""
        more = []
        if file is not None and (kept := BundleCache(file).load(self._domain, self._trusted)) is not None:
            entry, released, content = kept
            self._contents[released.hash] = content
            more.append(Offer(released, entry.data, (f"`{file}`",)))
        return await survey(self._connection, self._domain, self._trusted, more)

    async def restore(self, found: Survey, plan: Plan) -> Released | None:
        """Do it; returns what is the newest then. Raises Overtaken if somebody has released meanwhile."""
        newest, revision = found.newest, await self._revision()
        if plan.put_back is not None:
            newest = plan.put_back.released
            await self._store.put(self._domain, await self._content(newest))
            revision = await self._store.commit(self._domain, plan.put_back.data, revision)
        if plan.join is not None:
            content = await self._content(plan.join)
            chunks = await self._store.put(self._domain, content)
            data = sign_release(await asyncio.to_thread(self._joining, plan, chunks, content), self._identity)
            await self._store.commit(self._domain, data, revision)
            newest = Released.open(data, self._domain, self._trusted)
        if newest is not None and plan == Plan():
            await self._mend(found, newest)
        return newest

    async def _revision(self) -> int:
        """Of the entry that stands in the store now, as far as the store knows."""
        stored = await self._store.newest(self._domain)
        return stored.revision if stored is not None else 0

    async def _mend(self, found: Survey, newest: Released) -> None:
        """Write the second record, and content that is damaged or gone, where nothing else is lost."""
        data = next(each.data for each in found.history if each.released == newest)
        await self._store.mark(self._domain, data)
        await self._store.put(self._domain, await self._content(newest))

    async def _content(self, released: Released) -> bytes:
        """The content of a release, from wherever it is. Raises ContentMissing."""
        if released.hash in self._contents:
            return self._contents[released.hash]
        try:
            return await self._store.get(self._domain, released.release.chunks)
        except ContentMissing:
            return await fetch_content(self._connection, self._domain, released)

    def _joining(self, plan: Plan, chunks: tuple[str, ...], content: bytes) -> Release:
        assert plan.join is not None
        chosen = plan.join.release
        policies = PolicySet.read(Bundle.unpack(content, chosen.bundle))
        return Release(
            self._domain,
            plan.epoch + 1,
            chosen.bundle,
            chunks,
            self._clock(),
            policies.manifest.name,
            f"joins what was restored, with the policies of {plan.join}",
            plan.join.hash,
            whole=True,
            hierarchy=chosen.hierarchy,
            rearranged=True,
            forced=chosen.forced,
            joins=plan.joined,
        )
