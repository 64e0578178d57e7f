"""Bringing policies into force: a bundle is stored, then released, and what it changes is said with it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from time import monotonic

from authz import AuthFabricError, Identity, PublicKey
from authz.release import PREPARATION, Preparation, Release, Released, ReleaseRefused, sign_release
from bus.errors import BusError, ContentMissing, Overtaken
from bus.feeds import Entry, Feed, survey
from bus.nats import Connection
from bus.stores import HISTORY, collect_content
from pdp.bundle import Bundle, BundleRefused, InvalidPolicies, PolicySet
from pdp.lint import Difference, examine, justify
from pdp.releases.compile_service import is_large
from pdp.releases.preparing_service import Preparing

_log = logging.getLogger("authfabric.releases")

PATIENCE = 16.0
"""How long a release waits for members that compile it, as a multiple of the time that reading it took here."""
LEAST_PATIENCE = 30.0
"""Minimum seconds for which a large release waits for such members."""


class NoSuchRelease(AuthFabricError):
    """A release that the store does not have, or that is not verified."""

    def __init__(self, domain: str, epoch: int) -> None:
        super().__init__(f"`{domain}` has no verified release {epoch}: see `authfabric policy list`")
        self.domain = domain
        self.epoch = epoch


class ReleaseOvertaken(AuthFabricError):
    """Two released at once, and the other was first: `winner` is theirs."""

    def __init__(self, expected: int, winner: Released | None) -> None:
        theirs = "another entry" if winner is None else f"release {winner.epoch}"
        if winner is not None:
            theirs += f" by `{winner.signer}`" + (
                f" ({winner.release.message})" if winner.release.message else ""
            )
        super().__init__(
            f"{theirs} came first: yours was made to follow release {expected}."
            " Look at what it changed, then push again"
        )
        self.expected = expected
        self.winner = winner


@dataclass(frozen=True, slots=True)
class Published:
    """What came of a push: the release in force, and what it changed; `new` is false if it already was."""

    released: Released
    difference: Difference
    new: bool = True


class Publisher:
    """Releases policies of one domain, signed by one key."""

    def __init__(
        self,
        connection: Connection,
        domain: str,
        identity: Identity,
        trusted: Collection[PublicKey],
        clock: Callable[[], float],
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        """`say` is told what is waited for."""
        self._connection = connection
        self._say = say
        self._domain = domain
        self._identity = identity
        self._trusted = {*trusted, identity.public}
        self._feed = Feed(connection, domain, self._trusted)
        self._store = self._feed.store
        self._clock = clock

    async def history(self) -> list[Entry]:
        """The releases that are kept, oldest first."""
        return await self._feed.history()

    async def push(
        self, bundle: Bundle, message: str = "", override: bool = False, force: str = ""
    ) -> Published:
        """Bring a bundle into force. Raises ReleaseOvertaken if somebody else was first.

        After a release that cannot be verified nothing is pushed, nor into a store that has lost one (StoreBehind),
        unless told to `override` it. What `policy check` calls an error is refused. `force` is the reason why a policy
        allows everything to everyone, or why there is none: without one these are refused too, and the release
        records it.
        """
        began = monotonic()
        packed = await asyncio.to_thread(bundle.pack)
        policies = await asyncio.to_thread(_checked, bundle, is_large(packed))
        took = monotonic() - began
        found = await asyncio.to_thread(examine, bundle, policies)
        reason = justify(found, force)
        known = await survey(self._connection, self._domain, self._trusted)
        history, last = known.history, known.newest
        if not override:
            if history and history[-1].released is None:
                raise ReleaseRefused(0, history[-1].problem)
            known.check()
            await self._feed.look()  # raises StoreUnavailable if the newest entry is damaged
        if last is not None and last.release.bundle == bundle.hash and last == history[-1].released:
            return Published(last, Difference(), new=False)
        difference = await asyncio.to_thread(Difference.between, await self._policies(last), policies)
        chunks = await self._store.put(self._domain, packed)
        if is_large(packed):
            await self._prepare(bundle, chunks, last, took)
        release = Release(
            self._domain,
            last.release.sequence + 1 if last else 1,
            bundle.hash,
            chunks,
            self._clock(),
            policies.manifest.name,
            message,
            last.hash if last else "",
            difference.effects,
            difference.whole,
            difference.hierarchy,
            difference.rearranged,
            reason,
        )
        released = await self._commit(release, last, history[-1].revision if history else 0)
        if len(history) >= HISTORY:
            await self._collect()
        return Published(released, difference)

    async def rollback(self, epoch: int, message: str = "", force: str = "") -> Published:
        """Bring the bundle of an earlier release into force again, as a new release.

        The reason that was recorded with it counts again, unless another is given.
        """
        earlier = next((each.released for each in await self.history() if each.epoch == epoch), None)
        if earlier is None:
            raise NoSuchRelease(self._domain, epoch)
        said = message or f"back to release {epoch}"
        return await self.push(await self.bundle(earlier), said, force=force or earlier.release.forced)

    async def bundle(self, released: Released) -> Bundle:
        """The bundle of a release. Raises ContentMissing or BundleRefused."""
        return Bundle.unpack(
            await self._store.get(self._domain, released.release.chunks), released.release.bundle
        )

    async def _policies(self, released: Released | None) -> PolicySet | None:
        """What was in force; None if that cannot be read any more."""
        if released is None:
            return None
        try:
            return await asyncio.to_thread(PolicySet.read, await self.bundle(released))
        except (ContentMissing, BundleRefused, InvalidPolicies):
            return None

    async def _prepare(
        self, bundle: Bundle, chunks: tuple[str, ...], last: Released | None, took: float
    ) -> None:
        """Have a large bundle compiled everywhere before it is released; here reading it `took` so many seconds."""
        preparation = Preparation(self._domain, bundle.hash, chunks, last.hash if last is not None else "")
        patience = max(LEAST_PATIENCE, PATIENCE * took)
        data = PREPARATION.sign(preparation, self._identity)
        await Preparing(self._connection, self._domain, self._say).wait(data, patience)

    async def _collect(self) -> None:
        """Make room: the history has let go of a release."""
        try:
            await collect_content(self._connection, self._domain, self._clock())
        except BusError as error:  # it is released all the same
            _log.warning("what old releases of `%s` named stays in the store: %s", self._domain, error)

    async def _commit(self, release: Release, last: Released | None, revision: int) -> Released:
        data = sign_release(release, self._identity)
        try:
            await self._store.commit(self._domain, data, revision)
        except Overtaken:
            winner = (await self.history())[-1].released
            raise ReleaseOvertaken(last.epoch if last is not None else 0, winner) from None
        return Released.open(data, self._domain, self._trusted)


def _checked(bundle: Bundle, large: bool) -> PolicySet:
    """The policies of a bundle; what cannot be read or compiled is refused here, not by every replica."""
    policies = PolicySet.read(bundle)
    if large:  # replicas will not compile it as a whole either
        policies.verify()
    else:
        policies.engine()
    return policies
