"""Telling everybody that a key was revoked: a domain's own servers, and those of every network that it has joined."""

from __future__ import annotations

from time import time

from authfabric.settings import CONNECT_SECONDS
from authz import AuthFabricError
from authz.spki import Notice
from bus.access import ask_revocation
from bus.connection import Connection
from bus.credentials import Credentials
from bus.credentials_store import Found
from bus.errors import BusError
from bus.security import ServiceKeys
from pdp.access.domain import Issuer
from pdp.access.domain_store import DomainFolder


class NotTold(AuthFabricError):
    """A revocation that is kept in the folder, and that a network does not know of yet: `problem` says why."""

    def __init__(self, folder: DomainFolder, network: str, problem: BusError) -> None:
        super().__init__(
            f"the revocation is kept in `{folder.path / 'revoked'}`, but `{network}` was not told: {problem}; "
            "say it again when its servers and its access control service run"
        )
        self.network = network
        self.problem = problem


async def tell(folder: DomainFolder, issuer: Issuer, url: str, notice: Notice) -> list[str]:
    """Have a revocation heeded in every network where it may count; returns their names. Raises NotTold.

    A domain that has joined others may have no servers of its own, so those need not be there.
    """
    joined = {network: folder.in_network(issuer, time(), network) for network in folder.networks}
    for network, where in joined.items():
        try:
            await _tell(where, notice)
        except BusError as error:
            raise NotTold(folder, network, error) from None
    own = Credentials(ServiceKeys.of(issuer.service).member, tls=folder.tls(issuer, time()))
    try:
        await _tell(Found(url, own), notice)
    except BusError as error:
        if not joined:
            raise NotTold(folder, folder.file.name, error) from None
        return list(joined)
    return [folder.file.name, *joined]


async def _tell(where: Found, notice: Notice) -> None:
    async with Connection(
        where.url, name="domain", credentials=where.credentials, connect_seconds=CONNECT_SECONDS
    ) as bus:
        await ask_revocation(bus, notice)
