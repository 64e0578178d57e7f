"""Brokers among themselves: who is there, who wants what, and whom to trust with which type. No I/O but `send`.

Everything is soft state: it is repeated every second, and forgotten when it is not. What brokers tell each other is
signed and dated; whoever repeats it is not believed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping

from authz import Identity, PublicKey
from authz.errors import InvalidKey, InvalidSignature
from authz.predicate import Predicate
from authz.seal import Seal
from bus.subjects import link_all, link_to
from pubsub_core.broker import Broker
from pubsub_core.errors import TypeRefused
from pubsub_core.keys.errors import CannotOpen
from pubsub_core.keys.exchange import lock, unlock
from pubsub_core.messages import Hello, Note, Wants
from pubsub_core.session import Peer
from pubsub_core.trust import Web, beat
from pubsub_core.type_signature import SignedType

HELLO = Seal("broker hello", Hello)
NOTE = Seal("broker note", Note)
PEER_TTL = 3.5
"""Seconds without a sign of life after which a broker is taken to be gone."""
MAX_SKEW = 10.0
"""Seconds by which the clocks of brokers may differ."""
MAX_NOTE_BYTES = 256 * 1024


class Links:
    """A broker's connections to all others."""

    def __init__(
        self, broker: Broker, web: Web, owners: Iterable[Identity] = (), network: bytes = b""
    ) -> None:
        """`owners` are those whose heartbeats this broker sends; `network` is what all brokers share, if anything."""
        self._network = network
        self._broker = broker
        self._web = web
        self._owners = tuple(owners)
        self._told: dict[str, float] = {}
        self._announced = -1
        broker.ask_again = self._ask_again
        self.found_types = False
        """Whether definitions have come from other brokers since somebody last looked."""

    def tick(self) -> None:
        """Every second: say that one is there, and forget those who are not."""
        now = self._broker.setting.now()
        for owner in self._owners:
            self._web.hear(str(owner.public), beat(now, owner), now)
        self._web.forget(now)
        for name in [name for name, peer in self._broker.peers.items() if now - peer.heard > PEER_TTL]:
            self._forget(name)
        self.review(now)
        self._say_hello()

    def leave(self) -> None:
        """Say goodbye."""
        self._say_hello(leaving=True)

    def announce(self) -> None:
        """Tell all others what is wanted here, if that is news."""
        wants = self._wants()
        if wants.version != self._announced:
            self._announced = wants.version
            self._send(link_all(self._broker.setting.domain, "note"), self._note(wants))

    def refresh(self) -> None:
        """Our keys are other ones: tell all others anew what is wanted here, and have them tell us."""
        self._broker.switchboard.version += 1
        for peer in self._broker.peers.values():
            peer.version = -1
            self._tell(peer, ask=True)

    def announce_types(self) -> None:
        """Tell all others the definitions that are known here."""
        for part in self._definitions():
            self._send(link_all(self._broker.setting.domain, "note"), self._note(None, part))

    def hear_hello(self, data: bytes) -> None:
        try:
            opened = HELLO.read(data)
        except InvalidSignature:
            self._broker.counts.forged += 1
            return
        hello = opened.value
        peer = self._peer(hello.name, hello.domain, str(opened.signer), hello.time)
        if peer is None:
            return
        now = self._broker.setting.now()
        peer.groups = frozenset(hello.groups)
        self._join(peer, hello)
        self._learn(hello, now)
        if hello.leaving:
            self._forget(hello.name)
            return
        if peer.version != hello.wants:
            self._tell(peer, ask=True)
        self.review(now)

    def hear_note(self, data: bytes) -> None:
        try:
            opened = NOTE.read(unlock(self._network, "note", data) if self._network else data)
        except (InvalidSignature, CannotOpen):
            self._broker.counts.forged += 1
            return
        note = opened.value
        peer = self._peer(note.name, note.domain, str(opened.signer), note.time, newer=False)
        if peer is None:
            return
        self._accept(note.definitions)
        if note.wants is not None and note.wants.version != peer.version:
            peer.version, peer.wants = note.wants.version, self._read(note.wants, opened.signer)
        self.review(self._broker.setting.now())
        if note.tell:
            self._tell(peer, ask=False)
        if note.again:
            self._send_again(peer, note.again)
        if note.kept_from:
            self._broker.handle(peer.incoming.skip(note.kept_from))

    def review(self, now: float) -> None:
        """Look again at who is trusted with what, and which owners are within reach."""
        broker, web = self._broker, self._web
        types = {each.definition.id: each.definition.owner for each in broker.setting.catalogue}
        broker.silent = {id_ for id_, owner in types.items() if not web.reachable(owner, now)}
        for peer in broker.peers.values():
            peer.carries = {id_ for id_, owner in types.items() if web.trusts(peer.key, id_, owner, now)}
            wanted = {id_: filters for id_, filters in peer.wants.items() if id_ in peer.carries}
            if wanted != peer.served:
                changed = wanted.keys() ^ peer.served.keys()
                peer.served = wanted
                broker.switchboard.hear(peer.name, wanted)
                for id_ in changed:
                    broker.tell_interest(id_)

    def _peer(self, name: str, domain: str, key: str, time: float, newer: bool = True) -> Peer | None:
        """The broker that says something, if it may be listened to."""
        setting = self._broker.setting
        now = setting.now()
        if name == setting.name or abs(now - time) > MAX_SKEW:
            return None
        peer = self._broker.peers.get(name)
        if peer is not None and peer.key != key:
            self._broker.counts.untrusted += 1
            return None
        if newer and time <= self._told.get(key, 0.0):
            return None
        if newer:
            self._told[key] = time
        if peer is None:
            subject = link_to(setting.domain, name, "events")
            cached = link_to(setting.domain, name, "cached")
            peer = self._broker.peers[name] = Peer(name, domain, key, now, subject, cached)
            self._tell(peer, ask=True)
        peer.heard = now
        return peer

    def _join(self, peer: Peer, hello: Hello) -> None:
        """Find one's place on the line from another broker, and see that nothing is missing."""
        sent = hello.lines.get(self._broker.setting.name, 0)
        if peer.agreement != hello.agreement:
            with contextlib.suppress(InvalidKey):
                peer.secret = self._broker.agreement.shared(hello.agreement)
            peer.agreement = hello.agreement
        if peer.incoming.boot != hello.boot:
            peer.incoming.begin(hello.boot, sent)
        elif peer.incoming.lacks(sent):
            self._ask_again(peer)

    def _ask_again(self, peer: Peer) -> None:
        peer.asked = peer.incoming.next
        note = self._note(None, again=peer.asked)
        self._send(link_to(self._broker.setting.domain, peer.name, "note"), note)

    def _send_again(self, peer: Peer, first: int) -> None:
        kept = peer.outgoing.since(first)
        start = kept[0].number if kept else peer.outgoing.number + 1
        if start > first:
            note = self._note(None, kept_from=start)
            self._send(link_to(self._broker.setting.domain, peer.name, "note"), note)
        for message in kept:
            self._broker.forwarding.send_on(peer, message)

    def _learn(self, hello: Hello, now: float) -> None:
        for each in hello.vouches:
            with contextlib.suppress(InvalidSignature):
                self._web.learn(each)
        for owner, data in hello.beats.items():
            with contextlib.suppress(InvalidSignature):
                self._web.hear(owner, data, now)

    def _accept(self, definitions: Iterable[bytes]) -> None:
        catalogue, now = self._broker.setting.catalogue, self._broker.setting.now()
        for data in definitions:
            with contextlib.suppress(TypeRefused):  # it is refused here as everywhere
                signed = SignedType.decode(data)
                if signed.definition.version not in catalogue:
                    catalogue.accept(signed, now)
                    self.found_types = True

    def _forget(self, name: str) -> None:
        peer = self._broker.peers.pop(name)
        self._broker.switchboard.hear(name, {})
        for id_ in peer.served:
            self._broker.tell_interest(id_)

    def _tell(self, peer: Peer, ask: bool) -> None:
        """Tell a broker everything it should know, and ask for the same."""
        domain = self._broker.setting.domain
        self._say_hello(link_to(domain, peer.name, "hello"))
        subject = link_to(domain, peer.name, "note")
        for part in self._definitions():
            self._send(subject, self._note(None, part))
        self._send(subject, self._note(self._wants(), tell=ask))

    def _wants(self) -> Wants:
        switchboard, setting = self._broker.switchboard, self._broker.setting
        filters, vault = dict(switchboard.wants()), setting.vault
        key, now = setting.identity.public.raw, setting.now()
        sealed = {
            id_: vault.seal_filters(id_, filters.pop(id_), key, now) for id_ in vault.sealed & filters.keys()
        }
        return Wants(switchboard.version, filters, sealed)

    def _read(self, wants: Wants, by: PublicKey) -> Mapping[str, tuple[Predicate, ...]]:
        """What a broker wants, as far as it can be read here."""
        vault = self._broker.setting.vault
        clear = {id_: filters for id_, filters in wants.filters.items() if id_ not in vault.sealed}
        opened = {id_: vault.open_filters(id_, filters, by.raw) for id_, filters in wants.sealed.items()}
        return {**clear, **{id_: filters for id_, filters in opened.items() if filters}}

    def _definitions(self) -> Iterator[tuple[bytes, ...]]:
        """All definitions, in parts that fit a message."""
        part, size = list[bytes](), 0
        for each in self._broker.setting.catalogue:
            data = each.encode()
            if size + len(data) > MAX_NOTE_BYTES and part:
                yield tuple(part)
                part, size = [], 0
            part.append(data)
            size += len(data)
        if part:
            yield tuple(part)

    def _note(
        self,
        wants: Wants | None,
        definitions: tuple[bytes, ...] = (),
        tell: bool = False,
        again: int = 0,
        kept_from: int = 0,
    ) -> bytes:
        setting = self._broker.setting
        note = Note(setting.name, setting.domain, setting.now(), wants, definitions, tell, again, kept_from)
        data = NOTE.sign(note, setting.identity)
        return lock(self._network, "note", data) if self._network else data

    def _say_hello(self, subject: str = "", leaving: bool = False) -> None:
        setting, web, switchboard = self._broker.setting, self._web, self._broker.switchboard
        switchboard.wants()
        version = switchboard.version
        groups = tuple(sorted(setting.vault.ring.groups))
        lines = {name: peer.outgoing.number for name, peer in self._broker.peers.items()}
        hello = Hello(
            setting.name,
            setting.domain,
            setting.now(),
            version,
            web.vouches,
            web.beats,
            leaving,
            groups,
            self._broker.agreement.public,
            self._broker.forwarding.boot,
            lines,
        )
        self._send(subject or link_all(setting.domain, "hello"), HELLO.sign(hello, setting.identity))

    def _send(self, subject: str, data: bytes) -> None:
        self._broker.setting.send(subject, data)
