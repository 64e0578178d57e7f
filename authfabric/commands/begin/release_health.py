"""What `authfabric doctor` says about releases: in the store, at members, and whether more can be stored."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import msgspec

from authz import AuthFabricError, PublicKey
from bus.errors import StoreFull
from bus.feeds import Feed, MemberPoll, StoreBehind, survey
from bus.nats import Connection
from bus.stores import ReleaseStore


class Finding(msgspec.Struct, frozen=True):
    """One thing looked at: how it is, and what to do if it is not well."""

    about: str
    well: bool
    found: str
    do: str = ""


LISTEN_SECONDS = 1.5
"""Time within which members answer a roll call."""
NONE_HEARD = "none was heard"


async def releases(bus: Connection, domain: str, trusted: Collection[PublicKey]) -> list[Finding]:
    """How the store and the members of a domain are."""
    room = [await _room(bus)] if await ReleaseStore(bus).newest(domain) is not None else []
    return [await _store(bus, domain, trusted), *room, await _members(bus, domain)]


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


async def _room(bus: Connection) -> Finding:
    try:
        await ReleaseStore(bus).try_room()
    except StoreFull as error:
        return Finding("room in the store", False, str(error), "make room on the disk of its server")
    except AuthFabricError as error:
        return Finding("room in the store", True, f"not tried: {error}")
    return Finding("room in the store", True, "a trial write succeeded")


async def _members(bus: Connection, domain: str) -> Finding:
    async with MemberPoll(bus, domain) as caller:
        await asyncio.sleep(LISTEN_SECONDS)
        statuses = {name: each.status for name, each in sorted(caller.members.named().items())}
    at: dict[str, list[str]] = {}
    for name, status in statuses.items():
        held = f"release {status.epoch} ({status.release[:12]})" if status.release else "no release"
        at.setdefault(held, []).append(name)
    found = "; ".join(f"{held}: {', '.join(names)}" for held, names in at.items()) or NONE_HEARD
    problems = [f"{name}: {each.problem}" for name, each in statuses.items() if not each.ok]
    well = len(at) < 2 and not problems and "no release" not in at
    do = "" if well else "look again in a few seconds, after a push; then see the logs of those behind"
    return Finding("members", well, "; ".join([found, *problems]), do)
