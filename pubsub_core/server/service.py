"""A broker on the bus: `async with serve_broker(serving) as service`, for as long as the block lasts."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import secrets
from collections import deque
from collections.abc import AsyncIterator, Collection, Sequence
from math import inf
from time import monotonic, time

from authz.change import PolicyChange, compile_reach
from authz.spki import Notice
from bus.errors import BadMessage, BusError, NotConnected
from bus.feeds import RevocationFeed
from bus.nats import Connection, Probes, connect
from bus.runtime import in_background
from bus.stores import ParcelPublisher
from pep import UNVERIFIED, Enforcer
from pubsub_core.access import Disclosures, OwnerPoints, Rights
from pubsub_core.broker import Broker, Claims
from pubsub_core.delivery import Setting
from pubsub_core.events import NONCE_BYTES, Scrutiny
from pubsub_core.functions import Functions
from pubsub_core.history import INSTALL, HistorySetting, HistoryUnavailable
from pubsub_core.key_groups import Managers
from pubsub_core.replay import Doubts, FluentExchange, Pages, Replays
from pubsub_core.server.carriage_service import Carriage, place_of
from pubsub_core.server.certificates_service import CertificateWatch
from pubsub_core.server.config import Serving
from pubsub_core.server.disclosure_service import recording
from pubsub_core.server.durable_service import Durables
from pubsub_core.server.endpoints_service import Endpoints
from pubsub_core.server.fluent_subscription import FluentSubscription
from pubsub_core.server.key_service import Sealing
from pubsub_core.server.owner_policy_service import OwnerPolicyWatch
from pubsub_core.server.policy_watch_service import PolicyWatch
from pubsub_core.server.rpc_handlers import Calls
from pubsub_core.stores import StoreFollower, TableStore, TypeStore, UsageStore
from pubsub_core.trust import Credentials, HeardOwners, Web
from pubsub_core.types import Catalogue

TICK_SECONDS = 1.0
PDP_SECONDS = 3.0
"""Maximum seconds to wait for PDPs: less than clients wait for their broker."""
SESSION_TTL = 30.0
"""Seconds without a word from a client after which its session is over."""
REVOCATION_SECONDS = 5.0
"""Seconds a starting broker waits for the store of revocations; no capability counts before it was read."""
MAX_UNSENT = 10_000
TYPES_SECONDS = 10.0
"""Seconds between two checks of the certificates behind definitions."""

_log = logging.getLogger("authfabric.events")


class BrokerService:
    """The parts of a running broker."""

    def __init__(self, serving: Serving, bus: Connection, home: Connection, pep: Enforcer) -> None:
        """`home` is the connection to the domain's own server, where policies come from. Raises ManagersUnknown."""
        self._serving = serving
        self._bus = bus
        self._home = home
        self.catalogue = Catalogue(serving.trusted_names())
        managers = Managers(serving.managers, serving.identity)
        self.sealing = Sealing(bus, serving.identity, self.catalogue, serving.sealed, managers)
        self.web = Web(serving.roots)
        self.web.pin(*serving.vouches)
        self._heard = HeardOwners(serving.known.with_suffix(".owners") if serving.known else None)
        self.web.expected = self._heard.keys
        self._publisher = ParcelPublisher(bus)
        place = place_of(bus, serving.identity.public)
        self.broker = Broker(
            self._setting(), self.web, self._publisher.publish, place, serving.owner_keys, serving.network
        )
        self.presence = self.broker.presence
        self.carriage = Carriage(bus, self.broker, place, self.sealing.doubt, self.web.words.pinned)
        self.sealing.on_keys.append(self._try_again)
        self.policies = self.broker.setting.policies
        points = OwnerPoints(self.catalogue, self.policies)
        self._rights = rights = Rights(pep, self.catalogue, serving.owners, serving.generic, points)
        self.types = TypeStore(bus, self.catalogue, serving.network, self.policies)
        self._kept = self._carried = False
        self.claims = Claims(self.broker, rights, serving.generic, self._changed)
        self.observation = FluentSubscription(self.broker, rights)
        if serving.disclosures and pep.audit is not None:
            self.broker.setting.disclosures = Disclosures(
                self.catalogue, pep.audit.disclose, recording(pep.audit)
            )
        tables = TableStore(home, serving.domain, serving.policies, serving.network)
        self.broker.setting.rules.context.tables = tables.tables
        self._follow_tables = StoreFollower(home, tables, "context tables")
        self._pages = Pages(self.broker)
        doubts = Doubts(self.broker, self.web)
        self._exchange = FluentExchange(self.broker, self._pages, doubts)
        self._replays = Replays(self.broker, self._pages, self.claims)
        self.durables = Durables(bus, self.broker, place, self.sealing.doubt)
        self._usage = UsageStore(
            serving.known.with_suffix(".rates") if serving.known else None,
            self.broker.setting.rules.context.rates,
            self.claims.ledger,
            self._replays,
        )
        self._calls = Calls(
            self.broker,
            rights,
            self.claims,
            self.types,
            lambda: secrets.token_hex(16),
            self._changed,
            self._replays,
            self.web,
            self.durables,
        )
        self._door = Endpoints(bus, self.broker, self._calls, self._pages, self.durables, serving.group)
        self._unsent: deque[tuple[str, bytes]] = deque(maxlen=MAX_UNSENT)
        self._evolving = asyncio.Lock()
        self.following: PolicyWatch | None = None
        """What follows the releases; None if nothing does."""
        self._owner_policies = OwnerPolicyWatch(self.broker, self._reauthorize_types)
        asking = pep.asker.connection
        ways = [(asking, home), (home, asking), *([(bus, bus)] if bus is not home else [])]
        self.probes = Probes(ways)
        """Whether what is sent on each of its connections is heard on the others to the same server."""
        self._certificates = CertificateWatch(
            serving, self.broker, self.web, self.sealing, self._read_types_anew
        )
        self._revocations = RevocationFeed(bus, self._revoke)
        self._follow_types = StoreFollower(
            bus, self.types, "definitions of types", self._on_types, self._revocations.read
        )
        self._looked_at_types = monotonic()
        self._revocation = asyncio.Event()
        self._revoked = 0

    def _setting(self) -> Setting:
        serving = self._serving
        return Setting(
            serving.name,
            serving.domain,
            serving.identity,
            self.catalogue,
            Credentials(serving.clients),
            self._send,
            time,
            lambda: secrets.token_bytes(NONCE_BYTES),
            Scrutiny(serving.share, random.random),
            self.sealing.vault,
        )

    async def start(self, stack: contextlib.AsyncExitStack) -> None:
        """Load what there is, then listen. Raises HistoryUnavailable."""
        if self._serving.history is not None:
            await self._record(stack, self._serving.history)
        await stack.enter_async_context(self._pages.answering())
        await stack.enter_async_context(self._replays.running())
        await stack.enter_async_context(self._exchange.running())
        self._kept = not self._bus.keeps_nothing
        if self._kept or self._rights.verifier is not None:
            await stack.enter_async_context(self._revocations)
            self._rights.doubt = lambda: self._revocations.problem
            await self._revocations.first_look(REVOCATION_SECONDS)
        if self._kept:
            await self._follow_types.start(stack)
        if self._serving.policies:
            watch = self.following = PolicyWatch(
                self._home,
                self.broker,
                self._serving.policies,
                self._serving.lease,
                self.reauthorize,
                self._touched,
            )
            await stack.enter_async_context(watch)
        if self._serving.functions:
            functions = await asyncio.to_thread(
                Functions(self._serving.functions, self._serving.limits).__enter__
            )
            stack.callback(functions.close)
            self.broker.setting.rules.context.functions = functions
        if not self._home.keeps_nothing:
            await self._follow_tables.start(stack)
            in_background(stack, self._follow_tables.follow)
        await self._door.open(stack)
        self._carried = self._kept
        if self._carried:
            stack.callback(self._publisher.end)
            await self.carriage.start(stack)
            await stack.enter_async_context(self.durables.running())
        else:
            self.broker.sending.publish = None
            self.broker.interest.apply(inf)
            _log.warning("the server keeps no streams: events reach clients of this broker only")
        self.presence.start()
        await self._door.admit()
        await self.sealing.start(stack, self._on_keys)
        self._bus.on_ready.append(self._send_unsent)
        if self._kept:
            in_background(stack, self._follow_types.follow)
        follow = self._owner_policies.follow, self._follow_revocations, self._certificates.follow
        for work in (self._tick, self._keep_pace, *follow):
            in_background(stack, work)
        stack.callback(self.presence.leave)
        stack.push_async_callback(self._drain)
        stack.callback(self._usage.save)
        stack.callback(self.probes.end)

    async def _drain(self) -> None:
        """Let others take up what is delivered here, and have clients go there."""
        self._door.draining = True
        await self.durables.release()
        self._door.closed = True  # before its keys are gone, for want of which it would refuse them
        self.broker.drain()
        with contextlib.suppress(BusError):
            await self._bus.flush()

    async def _record(self, stack: contextlib.AsyncExitStack, history: HistorySetting) -> None:
        """Keep what is published from now on."""
        try:
            from pubsub_core.history import recording
        except ImportError as error:
            raise HistoryUnavailable(history.url, INSTALL) from error
        shared = self._serving.group if not history.url.startswith("sqlite") else ""
        keeper = shared or self._serving.name
        recorder = await stack.enter_async_context(recording(history, keeper, self.catalogue))
        self.broker.setting.history = f"{self._serving.domain}/{shared}" if shared else ""
        self.broker.setting.recorder = self._pages.keeper = recorder
        self.broker.observer.keep_in(recorder.fluents)
        self._replays.rules.owing.keep_in(recorder.fluents)

    def _send(self, subject: str, data: bytes) -> None:
        try:
            self._bus.send(subject, data)
        except NotConnected:
            self._unsent.append((subject, data))
        except BadMessage as error:
            _log.warning("a message to `%s` is lost: %s", subject, error)

    def _send_unsent(self) -> None:
        unsent, self._unsent = self._unsent, deque(maxlen=MAX_UNSENT)
        for subject, data in unsent:
            self._send(subject, data)

    def _try_again(self) -> None:
        """Keys have come."""
        self.broker.try_again()
        self._follow()

    def _follow(self) -> None:
        """Keep the reading of the stream in step with what is wanted."""
        if self._carried:
            self.carriage.follow()
            self.carriage.settle()

    def _changed(self, types: set[str]) -> None:
        self._follow()
        for each in types:
            self.broker.tell_interest(each)

    async def _on_keys(self) -> None:
        """What we can read is something else: then so is what we can ask of others, and they of us."""
        self.presence.hurry()
        await self.reauthorize(self.claims.epoch)
        self.claims.end_unreadable()

    async def _tick(self) -> None:
        while True:
            self.probes.send()
            self.presence.tick()
            self._heard.add(self.web.heard)
            self._usage.save()
            now = time()
            self._end_sessions(now)
            self.broker.try_again()
            self.broker.tick()
            self._replays.tick()
            self._replays.rules.tick()
            self._follow()
            if self.presence.told.found or self._types_changed():
                self.presence.told.found = False
                self.policies.look_again()
                await self.reauthorize(self.claims.epoch)
            await self.claims.review()
            await self.observation.review()
            self._exchange.tick()
            await asyncio.sleep(TICK_SECONDS)

    async def _keep_pace(self) -> None:
        """Send what travels at a steady pace, by the clock and nothing else."""
        while True:
            due = self.broker.sending.tick(
                time(), self.broker.subscriptions.wanted_elsewhere, self.broker.held
            )
            await asyncio.sleep(min(max(due - time(), 0.0), TICK_SECONDS))

    def _end_sessions(self, now: float) -> None:
        """End the sessions of clients that are gone, or whose credentials have run out."""
        for session in list(self.broker.sessions.values()):
            if now - session.heard > SESSION_TTL:
                self.broker.close(session)  # a client that is there begins another, and knows what it missed
            elif now >= session.holder.credential.until:
                self.broker.close(session, "the client's credential has run out: have it renewed")

    def _revoke(self, notice: Notice) -> None:
        """Heed what was taken back; nothing is delivered until everything was asked anew. Raises InvalidSignature."""
        self.catalogue.heed(notice, time())
        if self._rights.verifier is not None:
            self._rights.verifier.accept(notice, time())
        elif not self.catalogue.rests_on_certificates:
            return
        self.broker.hold()
        self._revoked += 1
        self._revocation.set()

    async def _follow_revocations(self) -> None:
        while True:
            await self._revocation.wait()
            self._revocation.clear()
            held, self._revoked = self._revoked, 0
            try:
                if self.catalogue.review(time()) or self._rights.verifier is not None:
                    await self.reauthorize(self.claims.epoch, keep=False)
            finally:
                for _ in range(held):
                    self.broker.release()

    async def reauthorize(self, epoch: int, keep: bool = True, types: Collection[str] | None = None) -> None:
        """Put these policies in force: nothing is delivered until every grant has been asked for again.

        With `types`, that is so of these alone: the policies say of all else what they have said before.
        """
        self.broker.hold(types)
        try:
            async with self._evolving:
                epoch = max(epoch, self.claims.epoch)
                if types is None:
                    await self.observation.reauthorize(epoch)
                else:
                    self.observation.keep(epoch)
                await self.claims.reauthorize(epoch, keep, types)
        finally:
            self.broker.release(types)

    async def _reauthorize_types(self, types: Collection[str] | None) -> None:
        """Ask anew about these types alone, whoever has granted what before."""
        await self.reauthorize(self.claims.epoch, keep=False, types=types)

    def _touched(self, changes: Sequence[PolicyChange]) -> Collection[str] | None:
        """The types on which changes of policies may leave other rights; None if anything may be different."""
        self.claims.expect(changes[-1].epoch)
        reaches = compile_reach(changes)
        return None if self.observation.reached(reaches) else self.claims.reached(reaches)

    async def _on_types(self) -> None:
        """There are other definitions of types."""
        self.policies.look_again()
        self.presence.say_types_elsewhere()
        await self.reauthorize(self.claims.epoch)

    def _read_types_anew(self) -> None:
        self.types.read_anew()
        self._follow_types.read_again()

    def _types_changed(self) -> bool:
        """Look now and then whether the certificates that definitions rest on still hold; whether some do not."""
        if monotonic() - self._looked_at_types < TYPES_SECONDS:
            return False
        self._looked_at_types = monotonic()
        return self.catalogue.review(time())


@contextlib.asynccontextmanager
async def serve_broker(serving: Serving) -> AsyncIterator[BrokerService]:
    """Run a broker for the length of the block."""
    home = serving.home or serving.url
    async with (
        Enforcer.connect(
            home,
            domain=serving.domain,
            name=serving.name,
            trust=UNVERIFIED if serving.unverified else tuple(serving.policies),
            credentials=serving.home_access,
            deadline=PDP_SECONDS,
        ) as pep,
        connect(serving.url, name=serving.name) as bus,
        contextlib.AsyncExitStack() as stack,
    ):
        near = bus
        if serving.home:
            own = connect(home, name=serving.name, credentials=serving.home_access)
            near = await stack.enter_async_context(own)
        service = BrokerService(serving, bus, near, pep)
        await service.start(stack)
        yield service
