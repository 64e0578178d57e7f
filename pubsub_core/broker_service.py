"""A broker on the bus: `async with serve_broker(serving) as service`, for as long as the block lasts."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import secrets
from collections import deque
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass, field
from time import time

from authz import Identity, PublicKey
from authz.spki import Notice, Owners
from bus.connection import Connection
from bus.envelope import pack
from bus.errors import BadMessage, BusError, NotConnected
from bus.responder import responding
from bus.revocations import RevocationFeed
from bus.subjects import broker as broker_subject
from bus.subjects import is_inbox, link_all, link_to
from pep import Enforcer
from pubsub_core.broker import Broker
from pubsub_core.calls import Calls
from pubsub_core.catalogue import Catalogue
from pubsub_core.credential import Credentials
from pubsub_core.enforcement import GENERIC, Generic
from pubsub_core.errors import UnknownType
from pubsub_core.event_type import EventType
from pubsub_core.keys.channel import Channels
from pubsub_core.keys.errors import AdmissionRefused, CannotOpen, ManagerUntrusted
from pubsub_core.keys.keyed_type import KeyedType
from pubsub_core.keys.member_service import KeyClient
from pubsub_core.keys.ring import KeyRing
from pubsub_core.keys.vault import Vault
from pubsub_core.links import Links
from pubsub_core.messages import (
    BROKER_KEY,
    Answer,
    BrokerKey,
    Taken,
    unpack_bundle,
    unpack_numbered,
    unpack_received,
)
from pubsub_core.policy_watch_service import PolicyWatch
from pubsub_core.proof import NONCE_BYTES, Scrutiny
from pubsub_core.rights import Rights
from pubsub_core.session import Setting
from pubsub_core.trust import Web
from pubsub_core.type_store import TypeStore

TICK_SECONDS = 1.0
SESSION_TTL = 30.0
"""Seconds without a word from a client after which its session is over."""
LEASE_SECONDS = 10.0
"""Seconds without the policy feed after which nothing is delivered until it is heard again."""
MAX_UNSENT = 10_000

_log = logging.getLogger("authfabric.events")


@dataclass(frozen=True, slots=True)
class Serving:
    """What a broker is told to be."""

    url: str
    name: str
    domain: str
    identity: Identity
    clients: Collection[PublicKey]
    """The domains whose credentials count."""
    policies: Collection[PublicKey] = ()
    """Whose releases of policies are followed; with none, decisions are asked for and never revisited."""
    roots: Collection[PublicKey] = ()
    """Those who may vouch for brokers for any type, besides the owners of types."""
    vouches: tuple[bytes, ...] = ()
    owner_keys: tuple[Identity, ...] = ()
    """The type owners whose heartbeats this broker sends."""
    owners: Owners | None = None
    """The type owners without whose capability nobody uses their types."""
    share: float = 1.0
    """The share of other brokers' bundles that is verified."""
    generic: Mapping[str, Generic] = field(default_factory=lambda: GENERIC)
    lease: float = LEASE_SECONDS
    sealed: Mapping[str, bytes] = field(default_factory=dict)
    """The types whose events are sealed, by name, each with the capability by which their keys are asked for."""
    network: bytes = b""
    """A secret that all brokers of the network share: then definitions travel, and are stored, under it."""
    home: str = ""
    """The server of its own domain, where PDPs are asked and policies followed, if it is another than `url`."""


class BrokerService:
    """The parts of a running broker."""

    def __init__(self, serving: Serving, bus: Connection, home: Connection, pep: Enforcer) -> None:
        """`home` is the connection to the domain's own server, where policies come from."""
        self._serving = serving
        self._bus = bus
        self._home = home
        self.catalogue = Catalogue()
        self.catalogue.on_accept.append(self._mark_sealed)
        self.vault = Vault(KeyRing())
        self.keys = KeyClient(bus, serving.identity, self.vault.ring)
        self.keys.on_change.append(self._on_keys)
        self._groups = self.vault.ring.groups
        self._groups_changed = asyncio.Event()
        self._channels = Channels(serving.identity)
        self.web = Web(serving.roots)
        for each in serving.vouches:
            self.web.learn(each)
        self.broker = Broker(
            Setting(
                serving.name,
                serving.domain,
                serving.identity,
                self.catalogue,
                Credentials(serving.clients),
                self._send,
                time,
                lambda: secrets.token_bytes(NONCE_BYTES),
                Scrutiny(serving.share, random.random),
                self.vault,
            )
        )
        self.links = Links(self.broker, self.web, serving.owner_keys, serving.network)
        self._rights = rights = Rights(pep, self.catalogue, serving.owners, serving.generic)
        self.types = TypeStore(bus, self.catalogue, serving.network)
        self._kept = False
        self.calls = Calls(
            self.broker,
            rights,
            self.types,
            lambda: secrets.token_hex(16),
            dict(serving.generic),
            self._changed,
        )
        self._unsent: deque[tuple[str, bytes]] = deque(maxlen=MAX_UNSENT)
        self._evolving = asyncio.Lock()
        self._types_news = asyncio.Event()
        self._revocation = asyncio.Event()
        self._revoked = 0

    async def start(self, stack: contextlib.AsyncExitStack) -> None:
        """Load what there is, then listen."""
        self._kept = await self._bus.has_jetstream()
        if self._kept:
            await self.types.listen(self._types_news.set)
            with contextlib.suppress(BusError):
                await self.types.refresh()
        if self._kept and self._rights.verifier is not None:
            await stack.enter_async_context(RevocationFeed(self._bus, self._revoke))
        if self._serving.policies:
            watch = PolicyWatch(
                self._home, self.broker, self._serving.policies, self._serving.lease, self._evolve
            )
            await stack.enter_async_context(watch)
        await self._listen(stack)
        await stack.enter_async_context(self.keys.running())
        self._bus.on_ready.append(self._send_unsent)
        for work in (
            self._tick(),
            self._follow_types(),
            self._follow_revocations(),
            self._follow_groups(),
            self._join_groups(),
        ):
            task = asyncio.create_task(work)
            stack.callback(task.cancel)
        stack.callback(self.links.leave)

    async def _listen(self, stack: contextlib.AsyncExitStack) -> None:
        serving, bus = self._serving, self._bus
        own = serving.name
        for hear, what in ((self.links.hear_hello, "hello"), (self.links.hear_note, "note")):
            for subject in (link_all(None, what), link_to(None, own, what)):
                await bus.listen(subject, lambda s, r, data, h, hear=hear: hear(data))  # type: ignore[misc]
        await bus.listen(link_to(None, own, "events"), self._on_line)
        await bus.listen(link_to(None, own, "cached"), self._on_line)
        await bus.listen(broker_subject(serving.domain, own, "publish"), self._on_publish)
        await bus.listen(broker_subject(serving.domain, own, "received"), self._on_received)
        busy = pack(Answer("the broker is busy: try again", "failed"))
        call = broker_subject(serving.domain, own, "call")
        await stack.enter_async_context(
            responding(bus, [call], self._on_call, busy=busy, at_once=16, waiting=1024)
        )
        await bus.listen(broker_subject(serving.domain, own, "key"), self._on_key_wanted)

    def _on_publish(self, subject: str, reply: str, payload: bytes, headers: bytes) -> None:
        if not is_inbox(reply):
            return
        try:
            message, channel = self._channels.open(payload)
        except CannotOpen:
            return

        def answer(taken: Taken) -> None:
            with contextlib.suppress(NotConnected):  # it will be sent again, and recognised
                self._bus.send(reply, channel.seal(pack(taken)))

        try:
            self.broker.publish(unpack_bundle(message), answer)
        except BadMessage as error:
            answer(Taken(0, problem=str(error)))

    def _on_key_wanted(self, subject: str, reply: str, payload: bytes, headers: bytes) -> None:
        """Tell a client to which key to seal what it says."""
        if is_inbox(reply):
            key = BrokerKey(self._serving.name, self._channels.public)
            self._send(reply, BROKER_KEY.sign(key, self._serving.identity))

    async def _on_call(self, payload: bytes) -> bytes:
        try:
            message, channel = self._channels.open(payload)
        except CannotOpen as error:
            return pack(Answer(str(error), "refused"))
        return channel.seal(await self.calls.answer(message, channel))

    def _on_line(self, subject: str, reply: str, payload: bytes, headers: bytes) -> None:
        self.broker.hear(unpack_numbered(payload))

    def _on_received(self, subject: str, reply: str, payload: bytes, headers: bytes) -> None:
        try:
            message, channel = self._channels.open(payload)
        except CannotOpen:
            return
        received = unpack_received(message)
        session = self.broker.sessions.get(received.session)
        if session is not None:
            session.heard = time()
            session.outbox.acknowledge(received.number)
            self.broker.flush(session)
        if is_inbox(reply):
            fault = "" if session is not None else "lost"
            self._send(reply, channel.seal(pack(Answer(fault=fault))))

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

    def _changed(self, types: set[str]) -> None:
        self.links.announce()
        for each in types:
            self.broker.tell_interest(each)

    def _mark_sealed(self, definition: EventType) -> None:
        """Have a type's events, and those of its sub-types, travel sealed or not at all."""
        parent = definition.parent.id if definition.parent is not None else ""
        if definition.name in self._serving.sealed or parent in self.vault.sealed:
            self.vault.sealed.add(definition.id)

    def _on_keys(self) -> None:
        """What we can read may have changed: then so has what we can ask of others, and they of us."""
        if self.vault.ring.groups != self._groups:
            self._groups = self.vault.ring.groups
            self._groups_changed.set()

    async def _follow_groups(self) -> None:
        while True:
            await self._groups_changed.wait()
            self._groups_changed.clear()
            self.links.refresh()
            await self._evolve(self.calls.epoch)

    async def _join_groups(self) -> None:
        """Ask for the keys of all types that are sealed, until they are there."""
        waiting, problems = set(self._serving.sealed), dict[str, str]()
        while waiting:
            for name in sorted(waiting):
                try:
                    await self._join_group(name)
                    waiting.discard(name)
                except (UnknownType, BusError):
                    continue  # the definition, or the manager, is not there yet
                except (AdmissionRefused, ManagerUntrusted) as error:
                    if problems.get(name) != str(error):
                        problems[name] = str(error)
                        _log.warning("the events of `%s` cannot be read here: %s", name, error)
            await asyncio.sleep(TICK_SECONDS)

    async def _join_group(self, name: str) -> None:
        keyed = KeyedType.of(self.catalogue, name)
        plan = await self.keys.join(keyed, self._serving.sealed[name])
        self.vault.learn(keyed.id, plan)
        self._groups_changed.set()

    async def _tick(self) -> None:
        while True:
            self.links.tick()
            now = time()
            self._end_sessions(now)
            if self.links.found_types:
                self.links.found_types = False
                await self._evolve(self.calls.epoch)
            await self.calls.review()
            await asyncio.sleep(TICK_SECONDS)

    def _end_sessions(self, now: float) -> None:
        """End the sessions of clients that are gone, or whose credentials have run out."""
        for session in list(self.broker.sessions.values()):
            if now - session.heard > SESSION_TTL:
                self.broker.close(session, f"nothing was heard of the client for {SESSION_TTL:g} s")
            elif now >= session.holder.credential.until:
                self.broker.close(session, "the client's credential has run out: have it renewed")
        self.links.announce()

    def _revoke(self, notice: Notice) -> None:
        """Heed what was taken back; nothing is delivered until everything was asked anew. Raises InvalidSignature."""
        assert self._rights.verifier is not None
        self._rights.verifier.accept(notice, time())
        self.broker.hold()
        self._revoked += 1
        self._revocation.set()

    async def _follow_revocations(self) -> None:
        while True:
            await self._revocation.wait()
            self._revocation.clear()
            held, self._revoked = self._revoked, 0
            try:
                await self._evolve(self.calls.epoch, keep=False)
            finally:
                for _ in range(held):
                    self.broker.release()

    async def _evolve(self, epoch: int, keep: bool = True) -> None:
        """Go by these policies from now on: nothing is delivered until everything has been asked anew."""
        self.broker.hold()
        try:
            async with self._evolving:
                await self.calls.evolve(max(epoch, self.calls.epoch), keep)
        finally:
            self.broker.release()

    async def _follow_types(self) -> None:
        while self._kept:
            await self._types_news.wait()
            self._types_news.clear()
            with contextlib.suppress(BusError):
                if await self.types.refresh():
                    self.links.announce_types()
                    await self._evolve(self.calls.epoch)


@contextlib.asynccontextmanager
async def serve_broker(serving: Serving) -> AsyncIterator[BrokerService]:
    """Run a broker for the length of the block."""
    home = serving.home or serving.url
    async with (
        Enforcer.connect(
            home, domain=serving.domain, name=serving.name, trust=tuple(map(str, serving.policies))
        ) as pep,
        Connection(serving.url, name=serving.name) as bus,
        contextlib.AsyncExitStack() as stack,
    ):
        near = await stack.enter_async_context(Connection(home, name=serving.name)) if serving.home else bus
        service = BrokerService(serving, bus, near, pep)
        await service.start(stack)
        yield service
