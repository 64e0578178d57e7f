"""What of an application stands on the bus: definitions of types, the policies in force, and what was revoked."""

from __future__ import annotations

from time import time

from authfabric.applications.folder import ApplicationFolder
from authfabric.files import own_identity, read_file, replace_file
from authfabric.releases import Rollout, watching
from authz import AuthFabricError, PublicKey
from authz.release import Released
from authz.spki import Capability, Certificate, Notice, Validity, decode_chain, encode_chain
from authz.spki.text import parse_notice, unparse_notice
from bus.errors import NoResponders
from bus.feeds import Feed, publish_notice
from bus.nats import Connection, ask_revocation
from bus.stores import put_record
from pdp.bundle import Bundle
from pdp.releases import Publisher
from pubsub_core.carriage import word_record
from pubsub_core.stores import TypeStore
from pubsub_core.trust import ALL, withdraw
from pubsub_core.types import Catalogue, SignedType

ROLLOUT_SECONDS = 30.0
"""How long a release may take to be in force everywhere."""
PROOF_SECONDS = 300
"""How long it is said of an owner that it may revoke."""
EARLIER = 60
"""Seconds by which that begins earlier: clocks differ a little."""


class NotInForce(AuthFabricError):
    """Policies that are released, and that somebody does not go by yet: `stragglers` says who, and why."""

    def __init__(self, rollout: Rollout) -> None:
        late = "; ".join(f"{name}: {why}" for name, why in rollout.stragglers.items())
        super().__init__(
            f"the policies are released, and not in force everywhere: {late or 'no PDP answers'}"
        )
        self.stragglers = rollout.stragglers


class ApplicationStore:
    """The part of an application that is on the bus."""

    def __init__(self, bus: Connection, domain: str) -> None:
        self._bus = bus
        self._domain = domain
        self._identity = own_identity()
        self._publisher = Publisher(bus, domain, self._identity, (), time)
        self._types = TypeStore(bus, Catalogue())

    async def versions(self) -> frozenset[str]:
        """The versions of all types that are in the store."""
        await self._types.refresh()
        return frozenset(each.definition.version for each in self._types.catalogue)

    async def publish(self, signed: SignedType) -> None:
        await self._types.publish(signed)

    async def bundle(self) -> Bundle:
        """The policies in force."""
        history = await self._publisher.history()
        last = history[-1].released if history else None
        return Bundle() if last is None else await self._publisher.bundle(last)

    async def release(self, bundle: Bundle, application: str) -> None:
        """Bring policies into force everywhere. Raises NotInForce, ReleaseOvertaken."""
        async with watching(self._bus, Feed(self._bus, self._domain, {self._identity.public})) as watch:
            made = await self._publisher.push(bundle, f"event application {application}")
            released: Released = made.released
            rollout = await watch.wait(released, ROLLOUT_SECONDS, quiet=True)
        if not rollout.complete:
            raise NotInForce(rollout)

    async def dismiss(self, folder: ApplicationFolder, broker: str) -> None:
        """Take back everything that owners have said for a broker, and given it."""
        key = folder.broker(broker).public
        for owner in folder.vouchers(broker):
            word = withdraw(key, [ALL], time(), folder.owner(owner))
            await put_record(self._bus, self._domain, *word_record(word))
        for owner, chain in folder.capabilities(broker):
            await self.revoke(folder, owner, chain)

    async def revoke(self, folder: ApplicationFolder, owner: str, chain: tuple[Certificate, ...]) -> None:
        """Take a broker's capability back: whoever gave keys for it gives no more."""
        signer, file = folder.owner(owner), folder.path / "owners" / f"{owner}.crl"
        now, taken = int(time()), chain[-1:]
        if file.exists():
            notice = read_file(file, parse_notice).following(signer, now, taken)
        else:
            notice = Notice.first(signer, now, taken)
        replace_file(file, unparse_notice(notice))
        try:
            await ask_revocation(self._bus, notice, self._proof(signer.public, chain))
        except NoResponders:
            await publish_notice(self._bus, notice)

    def _proof(self, revoker: PublicKey, chain: tuple[Certificate, ...]) -> bytes:
        """What shows the access control service that a revoker is somebody here.

        An owner of types need not be known to it. So whoever applies, and may pass on all rights, says so for a moment.
        """
        own = self._bus.credentials
        if own is None or not own.chain:
            return encode_chain(chain)
        now, granted = int(time()), chain[-1].unverified().authority
        word = Capability(
            own.identity.public, revoker, True, granted, Validity(now - EARLIER, now + PROOF_SECONDS)
        )
        return encode_chain((*decode_chain(own.chain), word.sign(own.identity)))
