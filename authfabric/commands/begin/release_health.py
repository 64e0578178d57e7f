"""What `authfabric doctor` says about releases: in the store, at members, and whether more can be stored."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from authfabric.overview import Finding, diagnose, look
from authz import AuthFabricError, PublicKey
from bus.errors import NotPermitted, StoreFull
from bus.feeds import Feed, MemberPoll, StoreBehind, survey
from bus.nats import Connection
from bus.stores import ReleaseStore

LISTEN_SECONDS = 1.5
"""Time within which members answer a roll call."""


async def releases(bus: Connection, domain: str, trusted: Collection[PublicKey]) -> list[Finding]:
    """How the store and the members of a domain are."""
    room = [await _room(bus, domain)] if await ReleaseStore(bus).newest(domain) is not None else []
    return [await _store(bus, domain, trusted), *room, *await _look(bus, domain, trusted)]


async def _store(bus: Connection, domain: str, trusted: Collection[PublicKey]) -> Finding:
    about = "policy store"
    try:
        found = await survey(bus, domain, trusted)
        found.check()
        await Feed(bus, domain, trusted).look()
    except StoreBehind as error:
        return Finding(
            about, False, str(error), "push nothing before; `authfabric policy restore` gives it back"
        )
    except NotPermitted as error:
        return Finding(about, False, str(error), "run the doctor with credentials that may read the releases")
    except AuthFabricError as error:
        do = (
            "do not empty it: see the server's log; `authfabric policy restore` gives back what replicas hold"
        )
        return Finding(about, False, str(error), do)
    if not found.history:
        return Finding(about, True, f"`{domain}` has no release yet")
    if found.history[-1].released is None:
        problem = f"its newest entry is refused: {found.history[-1].problem}"
        return Finding(about, False, problem, "see `authfabric policy list`, then who may install policies")
    return Finding(about, True, f"`{domain}` is at {found.newest}")


async def _room(bus: Connection, domain: str) -> Finding:
    try:
        await ReleaseStore(bus).try_room(domain)
    except StoreFull as error:
        return Finding("room in the store", False, str(error), "make room on the disk of its server")
    except NotPermitted:
        return Finding("room in the store", True, "not tried: only who may release policies can")
    except AuthFabricError as error:
        return Finding("room in the store", True, f"not tried: {error}")
    return Finding("room in the store", True, "a trial write succeeded")


async def _look(bus: Connection, domain: str, trusted: Collection[PublicKey]) -> list[Finding]:
    async with MemberPoll(bus, domain, detailed=True) as poll:
        await asyncio.sleep(LISTEN_SECONDS)
        return diagnose(await look(bus, domain, trusted, poll))
