"""Garbage collection: content that no kept release names is taken out of the store.

The history of a domain keeps its last releases. Those before are found by the hashes that lead back, as releases are
content too, and stay; what they name goes, unless a kept release of the domain names it as well. What was stored lately
stays: somebody may be about to release it. Nothing here is verified. A forged release can only keep content.
"""

from __future__ import annotations

from authz.release import Release, peek_release, release_hash
from bus.errors import ContentMissing
from bus.nats import Connection
from bus.stores.release_store import HISTORY, ReleaseStore, erase_entry, piece, read_entry, release_entries
from bus.wire import CONTENT

GRACE_SECONDS = 24 * 3600.0
"""Seconds for which content without a release is kept. Storing it again after half of them renews it."""
MOST_STEPS = 256
"""Maximum releases beyond the history that are examined in one pass."""


async def collect_content(connection: Connection, domain: str, now: float) -> int:
    """Take out what releases before the history of a domain named; returns how many pieces. Raises StoreUnavailable."""
    kept = await _kept(connection)
    ours = [each for each in kept.values() if each.domain == domain]
    if len(ours) < HISTORY:
        return 0
    named = {name for each in ours for name in each.chunks}
    known, taken = set(kept), 0
    ways = [name for each in ours for name in _before(each)]
    for _ in range(MOST_STEPS):
        if not (ways := [name for name in ways if name not in known]):
            break
        known.add(name := ways.pop())
        if (release := await _release(connection, domain, name)) is None:
            continue
        old, young = await _unnamed(connection, release, named, now)
        for each in old:
            await erase_entry(connection, CONTENT, piece(domain, each))
        taken += len(old)
        if old or young or named.issuperset(release.chunks):  # else it was done before, and all before it
            ways += _before(release)
    return taken


async def _kept(connection: Connection) -> dict[str, Release]:
    """The releases in the histories of all domains, by their hashes."""
    stored = [each.data for each in await release_entries(connection)]
    return {release_hash(data): release for data in stored if (release := peek_release(data)) is not None}


async def _release(connection: Connection, domain: str, name: str) -> Release | None:
    try:
        return peek_release(await ReleaseStore(connection).get(domain, (name,)))
    except ContentMissing:
        return None


async def _unnamed(
    connection: Connection, release: Release, named: set[str], now: float
) -> tuple[list[str], list[str]]:
    """The pieces that are there of a release and no kept one names: those to take out, and those too young for it."""
    old, young = list[str](), list[str]()
    for name in set(release.chunks) - named:
        found = await read_entry(connection, CONTENT, piece(release.domain, name))
        if found is not None and found.data:
            (old if now - found.at > GRACE_SECONDS else young).append(name)
    return old, young


def _before(release: Release) -> list[str]:
    return [name for name in (release.before, *release.joins) if name]
