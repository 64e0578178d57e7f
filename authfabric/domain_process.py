"""One process of a domain's access control service: everything that `authfabric domain serve` runs, put together."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import time

from authfabric.terminal import err, print_json
from authz import AuthFabricError, PublicKey
from authz.errors import InvalidKey
from authz.spki import Notice
from bus.connection import Connection
from bus.revocations import publish_notice
from bus.security import ServiceKeys
from bus.tasks import in_background
from pdp.access import AccessRules, AccessService
from pdp.access.census import Census, Share
from pdp.access.domain import Issuer
from pdp.access.domain_store import DomainFolder
from pdp.access.entitlement import Enrolment, RoleEntitlement
from pdp.access.issuing_service import IssuingService
from pdp.bundle_store import read_folder
from pdp.policy_set import PolicySet

FOLLOW_SECONDS = 2.0

RoleRules = Callable[[Connection], RoleEntitlement]


@dataclass(frozen=True, slots=True)
class Serving:
    """What an access control service is told to do."""

    folder: DomainFolder
    issuer: Issuer
    url: str
    rules: AccessRules
    share: Share
    lifetime: float
    """Seconds that capabilities last which are asked for."""
    roles: RoleRules | None = None
    """What gives capabilities for roles; None if nothing does."""
    json: bool = False
    audit: bool = True
    """Whether decisions are kept."""

    def access(self) -> AccessService:
        keys, tls = ServiceKeys.of(self.issuer.service), self.folder.tls(self.issuer, time())
        control = self.folder.control(self.rules)
        return AccessService(self.url, keys, control, time, tls, Census(self.share), audit=self.audit)

    def issuing(self, access: AccessService) -> IssuingService:
        enrolment = Enrolment(lambda: self.folder.members)
        roles = None if self.roles is None else self.roles(access.member)
        certify = partial(self.folder.certify_member, self.issuer)
        return IssuingService(
            access.member, self.issuer, time, access.revocations, enrolment, roles, self.lifetime, certify
        )


def role_rules(service: PublicKey, policies: Path) -> RoleRules:
    """What gives capabilities for roles, once there is a connection: by the word of a role service, by these rules."""
    rules = PolicySet.read(read_folder(policies)).roles
    if rules is None:
        raise InvalidKey(f"`{policies}` has no role rules, so no role gives a capability")
    return lambda bus: RoleEntitlement(bus, service, rules.rulebook)


async def serve(serving: Serving) -> None:
    """Decide on everyone who connects, until a signal ends it."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with contextlib.AsyncExitStack() as stack:
        access = await stack.enter_async_context(serving.access())
        await stack.enter_async_context(serving.issuing(access))
        in_background(stack, partial(follow, serving.folder, access))
        _say_ready(serving, access.member.address)
        await stop.wait()
    err.print(f"ended: {access.admitted} let in, {access.refused} refused", highlight=False)


async def follow(folder: DomainFolder, access: AccessService) -> None:
    """Look again and again at what the domain holds, whom it has admitted, and whom it has revoked."""
    published = set[Notice]()
    while True:
        try:
            folder.refresh(access.control)
            for notice in set(folder.revocations) - published:
                await publish_notice(access.member, notice)
                published.add(notice)
        except AuthFabricError as error:
            err.print(f"the folder is not followed: {error}", highlight=False)
        await asyncio.sleep(FOLLOW_SECONDS)


def _say_ready(serving: Serving, address: str) -> None:
    if serving.json:
        print_json({"ready": True, "domain": serving.folder.file.name, "url": address})
    else:
        err.print(f"[green]ready[/]: decides who connects to {address}", highlight=False, soft_wrap=True)
