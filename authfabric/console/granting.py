"""Who holds which capability in a domain, as its folder tells; and taking a member's back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import time

from authfabric.console.capability_graph import Graph, Link, graph
from authz import AuthFabricError, PublicKey
from authz.spki import Certificate, Notice, Revocations, parse_chain
from pdp.access import DomainFolder, Issuer, revokers

Tell = Callable[[DomainFolder, Issuer, str, Notice], Awaitable[list[str]]]
"""Has a revocation heeded wherever it may count; returns the names of those networks."""


class CannotRevoke(AuthFabricError):
    """The console cannot take this back: `problem` says why."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Trust:
    """A domain, and who holds what in it."""

    name: str
    owner: str
    service: str
    releasers: tuple[str, ...]
    """Whose word counts about policies, besides the owner's."""
    servers_until: float
    networks: tuple[str, ...]
    """The networks of others that it has joined."""
    members: frozenset[str]
    """The names under which members were granted something."""
    graph: Graph


@dataclass(frozen=True, slots=True)
class Granting:
    """A domain's folder, further capabilities, and what revokes; each may be missing."""

    folder: DomainFolder | None = None
    issuer: Issuer | None = None
    """Who revokes; None to look only."""
    capabilities: Path | None = None
    """A folder with chains of capabilities that were issued by whoever else."""
    tell: Tell | None = None
    revocations: Revocations = field(default_factory=Revocations)
    """What was revoked, as far as it was heard on the bus."""

    @property
    def known(self) -> bool:
        """Whether there is anything to show."""
        return self.folder is not None or self.capabilities is not None

    @property
    def able(self) -> bool:
        """Whether members can be revoked."""
        return self.folder is not None and self.issuer is not None and self.tell is not None

    async def trust(self) -> Trust:
        """Raises what reading the folders raises."""
        return await asyncio.to_thread(self._read)

    def _read(self) -> Trust:
        folder, chains = self.folder, list(self._chains())
        for notice in folder.revocations if folder is not None else ():
            self.revocations.accept(notice)
        if folder is None:
            drawn = graph(chains, {}, self.revocations, time())
            return Trust("", "", "", (), 0.0, (), frozenset(), drawn)
        folder = DomainFolder.open(folder.path)
        file = folder.file
        names = {file.owner: file.name, file.service: "access control service"}
        return Trust(
            file.name,
            file.owner,
            file.service,
            file.trust,
            folder.servers_until,
            tuple(folder.networks),
            frozenset(folder.members),
            graph(chains, names, self.revocations, time()),
        )

    def _chains(self) -> Iterator[tuple[str, Sequence[Certificate]]]:
        if self.folder is not None:
            yield from (("", chain) for chain in self.folder.holdings)
            for found in (self.folder.members, self.folder.admitted_domains):
                yield from ((name, (certificate,)) for name, certificate in found.items())
        if self.capabilities is not None:
            for each in sorted(self.capabilities.rglob("*.cap")):
                yield each.stem, parse_chain(each.read_text(), str(each))

    async def member(self, name: str) -> Link:
        """What a member was granted. Raises CannotRevoke."""
        trust = await self.trust()
        own = (each for each in trust.graph.links if each.name == name and name in trust.members)
        found = next(own, None)
        if found is None:
            raise CannotRevoke(f"`{name}` is no member of the domain")
        return found

    async def revoke(self, name: str) -> list[str]:
        """Revoke a member's key for good; returns the networks that heed it. Raises CannotRevoke, RevocationPending."""
        if self.folder is None or self.issuer is None or self.tell is None:
            raise CannotRevoke("this console has no key to revoke with: start it with `--folder`")
        key = PublicKey.parse((await self.member(name)).holder)
        signer = self.issuer.service
        folder = await asyncio.to_thread(DomainFolder.open, self.folder.path)
        granted = folder.members[name].unverified().issuer
        if revokers(folder, granted) != (signer.public,):  # another key may have granted it something, too
            problem = "was granted by a key that is being exchanged: `authfabric domain revoke` takes it back"
            raise CannotRevoke(f"`{name}` {problem}")
        notice = await asyncio.to_thread(folder.revoke, signer, key, time())
        told = await self.tell(folder, self.issuer, folder.file.url, notice)
        await asyncio.to_thread(folder.strike_off, signer.public, key)
        return told
