"""A survey of a domain's releases: in the store, in its second record, and at replicas."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from authz import PublicKey
from authz.release import Released, ReleaseRefused
from bus.errors import BusError
from bus.feeds.held_releases_service import Offer, ask_held
from bus.feeds.release_feed import Entry, verify_history
from bus.nats import Connection
from bus.stores import ReleaseStore

SECOND_RECORD = "the store's second record"


class StoreBehind(BusError):
    """The store does not have a release that there has been: `lost` is that, `newest` what it has, if anything."""

    def __init__(self, newest: Released | None, lost: Offer) -> None:
        has = f"goes only as far as {newest}" if newest is not None else "is empty"
        if newest is not None and newest.epoch >= lost.released.epoch:
            has = f"has another line of releases, up to {newest}"
        super().__init__(
            f"the store {has}, and {lost.released} is held by {', '.join(lost.members)}:"
            " see `authfabric policy restore --dry-run`"
        )
        self.newest = newest
        self.lost = lost


@dataclass(frozen=True, slots=True)
class Survey:
    """Everything found at one time."""

    history: Sequence[Entry]
    """The entries that the store keeps, oldest first."""
    offers: Sequence[Offer]
    """What else is known, verified, the newest first."""

    @property
    def revision(self) -> int:
        """Of the entry stored last; 0 if there is none."""
        return self.history[-1].revision if self.history else 0

    @property
    def newest(self) -> Released | None:
        """The newest release that the store has."""
        return next((each.released for each in reversed(self.history) if each.released), None)

    @property
    def lost(self) -> list[Offer]:
        """The releases that the store neither has nor has gone past, the newest first."""
        kept = [each.released for each in self.history if each.released is not None]
        known = {each.hash for each in kept} | {name for each in kept for name in each.predecessors}
        oldest = kept[0].epoch if kept else 0
        return [
            each
            for each in self.offers
            if each.released.hash not in known and each.released.epoch >= oldest - 1
        ]

    def check(self) -> None:
        """Raises StoreBehind if the store has lost something."""
        if self.lost:
            raise StoreBehind(self.newest, self.lost[0])


async def survey(
    bus: Connection, domain: str, trusted: Collection[PublicKey], more: Collection[Offer] = ()
) -> Survey:
    """Ask the store and the replicas; `more` is known already. Raises StoreUnavailable, or NotConnected."""
    store = ReleaseStore(bus)
    offers = [*await ask_held(bus, domain, trusted), *more]
    with contextlib.suppress(ReleaseRefused):
        if data := await store.marked(domain):
            offers.append(Offer(Released.open(data, domain, trusted), data, (SECOND_RECORD,)))
    # The store last: what was held before that must be there now.
    history = verify_history(await store.history(domain), domain, trusted)
    return Survey(history, _merged(offers))


def _merged(offers: Sequence[Offer]) -> list[Offer]:
    """Each release once, with everybody who holds it."""
    found: dict[str, Offer] = {}
    for each in offers:
        known = found.get(each.released.hash)
        members = (*known.members, *each.members) if known is not None else each.members
        found[each.released.hash] = Offer(each.released, each.data, members)
    return sorted(found.values(), key=lambda each: -each.released.epoch)
