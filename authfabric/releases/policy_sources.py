"""Where policies come from: a folder, a bundle in a file, or a release of the domain."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from authfabric.files import CONNECT_SECONDS, trusted_keys
from authfabric.terminal import run
from authz import AuthFabricError
from bus.feeds import Feed
from bus.nats import connect
from pdp.bundle import Bundle, read_bundle, read_folder
from pdp.releases import NoSuchRelease

CURRENT = "current"
"""What stands for the release in force."""


class NoPolicies(AuthFabricError):
    """What was given as policies is neither a folder, nor a bundle, nor a release."""

    def __init__(self, given: str) -> None:
        super().__init__(
            f"`{given}` is no folder, no bundle and no release: give the number of one, or `current`"
        )
        self.given = given


@dataclass(frozen=True, slots=True)
class Found:
    """Policies, and under which epoch they were released; None if they come from disk."""

    bundle: Bundle
    epoch: int | None = None


@dataclass(frozen=True, slots=True)
class PolicySources:
    """Where to look for them: in the releases of a domain, if it is no path."""

    url: str
    domain: str
    trust: list[str] | None
    """Whose bundles and releases count; None for this user's own."""

    def find(self, given: str) -> Found:
        """The policies that a text names. Raises NoPolicies, NoSuchRelease, BundleRefused and what the bus raises."""
        path = Path(given)
        if path.exists():
            return Found(
                read_folder(path) if path.is_dir() else read_bundle(path, trusted_keys(self.trust, self.url))
            )
        if given != CURRENT and not given.isdecimal():
            raise NoPolicies(given)
        return run(self._release(int(given) if given != CURRENT else 0))

    async def _release(self, epoch: int) -> Found:
        """The release of an epoch, or the newest for 0."""
        async with connect(self.url, name="policies", connect_seconds=CONNECT_SECONDS) as bus:
            feed = Feed(bus, self.domain, trusted_keys(self.trust, self.url))
            entry = (
                next((each for each in await feed.history() if each.epoch == epoch), None)
                if epoch
                else await feed.newest()
            )
            if entry is None or entry.released is None:
                raise NoSuchRelease(self.domain, epoch)
            release = entry.released.release
            return Found(
                Bundle.unpack(await feed.store.get(feed.domain, release.chunks), release.bundle), entry.epoch
            )
