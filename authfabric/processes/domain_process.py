"""One process of a domain's access control service: everything that `authfabric domain serve` runs, put together."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import time

from authfabric.files import CONNECT_SECONDS
from authfabric.processes.metrics import AccessMetrics
from authfabric.processes.vitals import process_vitals
from authfabric.terminal import HealthAddress, err, print_json, printable
from authz import AuthFabricError, PublicKey
from authz.errors import InvalidKey
from authz.spki import Notice
from bus.errors import BusError
from bus.feeds import publish_notice
from bus.identity import Credentials, Found
from bus.nats import Connection, ask_revocation
from bus.runtime import in_background
from bus.server import ServiceKeys
from bus.stores import STORAGE, StorageClass
from pdp.access import (
    AccessRules,
    AccessService,
    ConnectionAccounting,
    DomainFolder,
    Enrolment,
    Issuer,
    IssuingService,
    RoleEntitlement,
    Share,
)
from pdp.bundle import PolicySet, read_folder
from pubsub_core.carriage import CarrierRightsService

FOLLOW_SECONDS = 2.0

RoleRules = Callable[[Connection], RoleEntitlement]


@dataclass(frozen=True, slots=True)
class DomainProcess:
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
    roots: Collection[PublicKey] = ()
    """Those who may vouch for brokers for any type, besides the owners of types."""
    storage: tuple[StorageClass, ...] = STORAGE
    """How events are kept on their way."""
    health: HealthAddress = field(default_factory=lambda: HealthAddress("127.0.0.1", 0))
    """Where health and metrics are served."""

    def access(self) -> AccessService:
        keys, tls = ServiceKeys.of(self.issuer.service), self.folder.tls(self.issuer, time())
        control = self.folder.control(self.rules)
        carriage = CarrierRightsService(self.roots, self.storage)
        return AccessService(
            self.url,
            keys,
            control,
            time,
            tls,
            ConnectionAccounting(self.share),
            audit=self.audit,
            carriage=carriage,
        )

    def issuing(self, access: AccessService) -> IssuingService:
        enrolment = Enrolment(lambda: self.folder.members, self.issuer.service.public)
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


async def serve_domain(serving: DomainProcess) -> None:
    """Decide on everyone who connects, until a signal ends it."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with process_vitals(serving.health) as vitals, contextlib.AsyncExitStack() as stack:
        access = await stack.enter_async_context(serving.access())
        await stack.enter_async_context(serving.issuing(access))
        in_background(stack, partial(follow, serving.folder, access))
        vitals.begin([access.member], AccessMetrics(access), able=lambda: access.able)
        _say_ready(serving, access.member.address, vitals.address)
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
            err.print(f"the folder is not followed: {printable(str(error))}", highlight=False)
        await asyncio.sleep(FOLLOW_SECONDS)


def _say_ready(serving: DomainProcess, address: str, health: str) -> None:
    if serving.json:
        print_json({"ready": True, "domain": serving.folder.file.name, "url": address, "health": health})
    else:
        text = f"[green]ready[/]: decides who connects to {address}; health on {health}"
        err.print(text, highlight=False, soft_wrap=True)


class RevocationPending(AuthFabricError):
    """A revocation that is kept in the folder, and that a network does not know of yet: `problem` says why."""

    def __init__(self, folder: DomainFolder, network: str, problem: BusError) -> None:
        super().__init__(
            f"the revocation is kept in `{folder.path / 'revoked'}`, but `{network}` was not told: {problem}; "
            "say it again when its servers and its access control service run"
        )
        self.network = network
        self.problem = problem


async def tell(folder: DomainFolder, issuer: Issuer, url: str, notice: Notice) -> list[str]:
    """Have a revocation heeded in every network where it may count; returns their names. Raises RevocationPending.

    A domain that has joined others may have no servers of its own, so those need not be there.
    """
    own = Credentials(ServiceKeys.of(issuer.service).member, tls=folder.tls(issuer, time()))
    joined = {network: folder.in_network(issuer, time(), network) for network in folder.networks}
    told, pending = list[str](), dict[str, BusError]()
    for network, where in {folder.file.name: Found(url, own), **joined}.items():
        try:
            await _tell(where, notice)
            told.append(network)
        except BusError as error:  # the others are told all the same
            pending[network] = error
    if joined:
        pending.pop(folder.file.name, None)
    for network, problem in pending.items():
        raise RevocationPending(folder, network, problem)
    return told


async def _tell(where: Found, notice: Notice) -> None:
    async with Connection(
        where.url, name="domain", credentials=where.credentials, connect_seconds=CONNECT_SECONDS
    ) as bus:
        await ask_revocation(bus, notice)
