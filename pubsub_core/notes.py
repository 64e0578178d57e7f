"""Control messages between brokers: subscriptions, type definitions, and requests for retransmission.

Everything here is signed by the broker that says it, so it may come through others; it is told again to whoever shows
that it has not heard it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

import msgspec

from authz import PublicKey
from authz.errors import InvalidPredicate, InvalidSignature
from authz.predicate import EVENT, Predicate, compile_predicate
from authz.predicate.cost import PEER_COMPARISONS, check_cost
from authz.seal import Opened, Seal
from bus.subjects import link_all
from pubsub_core.broker import Broker
from pubsub_core.errors import TypeRefused
from pubsub_core.keys.errors import CannotOpen
from pubsub_core.keys.exchange import lock, unlock
from pubsub_core.messages import Note, Wants
from pubsub_core.session import Peer
from pubsub_core.type_signature import SignedType

Trusts: TypeAlias = Callable[[str, str, str, float], bool]
"""Whether the broker with this key may carry the type of this UUID and owner, now."""

NOTE = Seal("broker note", Note)
MAX_NOTE_BYTES = 256 * 1024


class Notes:
    """Writes and reads a broker's notes."""

    def __init__(self, broker: Broker, trusts: Trusts, network: bytes = b"") -> None:
        """`trusts` says who is trusted with a type; `network` is a secret that all brokers share, if they do."""
        self._broker = broker
        self._trusts = trusts
        self._network = network
        self._announced = -1
        broker.ask_again = self.ask_again
        self.found_types = False
        """Whether definitions have come from other brokers since somebody last looked."""
        self.untold: set[str] = set()
        """The brokers that have sent definitions with which they were not trusted then."""

    def announce(self) -> None:
        """Tell all others what is wanted here, if that is news."""
        wants = self._wants()
        if wants.version != self._announced:
            self._announced = wants.version
            self._tell_all(self._note(wants))

    def announce_types(self) -> None:
        """Tell all others the definitions that are known here."""
        for part in self._definitions():
            self._tell_all(self._note(None, part))

    def tell(self, peer: Peer, ask: bool) -> None:
        """Tell a broker everything it should know, and ask for the same."""
        for part in self._definitions():
            self._send(peer, self._note(None, part))
        self._send(peer, self._note(self._wants(), tell=ask))

    def ask_for_types(self, peer: Peer) -> None:
        """Have a broker tell everything it knows."""
        self._send(peer, self._note(None, tell=True))

    def ask_again(self, peer: Peer) -> None:
        """Have a broker send again what is missing on the line from there."""
        peer.asked = peer.incoming.next
        self._send(peer, self._note(None, again=peer.asked))

    def read(self, data: bytes) -> Opened[Note] | None:
        """A note and who signed it; None if nobody did."""
        try:
            return NOTE.read(unlock(self._network, "note", data) if self._network else data)
        except (InvalidSignature, CannotOpen):
            self._broker.counts.forged += 1
            return None

    def learn(self, peer: Peer, note: Note, signer: PublicKey) -> None:
        """Take in what a broker says that it wants, and the definitions that it knows."""
        self._accept(peer, note.definitions)
        if note.wants is not None and note.wants.version != peer.version:
            peer.version, peer.wants = note.wants.version, self._readable(note.wants, signer)
            peer.seals = frozenset(note.wants.sealed)

    def answer(self, peer: Peer, note: Note) -> None:
        """Do what a broker asks for."""
        if note.tell:
            self.tell(peer, ask=False)
        if note.again:
            self._send_again(peer, note.again)
        if note.kept_from:
            self._broker.handle(peer.incoming.skip(note.kept_from))

    def _send_again(self, peer: Peer, first: int) -> None:
        kept = peer.outgoing.since(first)
        start = kept[0].number if kept else peer.outgoing.number + 1
        if start > first:
            self._send(peer, self._note(None, kept_from=start))
        for message in kept:
            if message.type and message.type not in peer.served:
                # It is no longer trusted with them, or nobody on the way is: what it is sent fills their place.
                message = msgspec.structs.replace(message, data=b"", type="")
            self._broker.forwarding.send_on(peer, message)

    def _tell_all(self, data: bytes) -> None:
        setting = self._broker.setting
        setting.send(link_all(setting.domain, "note"), data)
        for peer in self._broker.peers.values():
            if not peer.near:
                self._send(peer, data)

    def _send(self, peer: Peer, data: bytes) -> None:
        self._broker.ways.send(peer, "note", data)

    def _accept(self, peer: Peer, definitions: Iterable[bytes]) -> None:
        """Take definitions in from a broker that their owners trust with the types: others have none to tell of."""
        catalogue, now = self._broker.setting.catalogue, self._broker.setting.now()
        for data in definitions:
            with contextlib.suppress(TypeRefused):  # it is refused here as everywhere
                signed = SignedType.decode(data)
                if not self._trusts(peer.key, signed.definition.id, signed.definition.owner, now):
                    self._broker.counts.untrusted += 1
                    self.untold.add(peer.name)
                    continue
                before = catalogue.revision
                catalogue.accept(signed, now)
                self.found_types |= catalogue.revision != before

    def _wants(self) -> Wants:
        switchboard, setting = self._broker.switchboard, self._broker.setting
        filters, vault = dict(switchboard.wants()), setting.vault
        key, now = setting.identity.public.raw, setting.now()
        # Others hear of all that is sealed here: of what nobody wants, too.
        sealed = {
            id_: vault.seal_filters(id_, filters.pop(id_, ()), key, now) for id_ in sorted(vault.sealed)
        }
        return Wants(switchboard.version, filters, sealed)

    def _readable(self, wants: Wants, by: PublicKey) -> Mapping[str, tuple[Predicate, ...]]:
        """What a broker wants, as far as it can be read here."""
        vault = self._broker.setting.vault
        clear = {id_: filters for id_, filters in wants.filters.items() if id_ not in vault.sealed}
        opened = {
            id_: vault.open_filters(id_, filters, by.raw) for id_, filters in wants.sealed.items() if filters
        }
        read = {**clear, **opened}
        meant = {id_: tuple(filter(_is_meant, filters)) for id_, filters in read.items()}
        self._broker.counts.forged += sum(map(len, read.values())) - sum(map(len, meant.values()))
        return {id_: filters for id_, filters in meant.items() if filters}

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


def _is_meant(predicate: Predicate) -> bool:
    """Whether events can be held against a filter: one that cannot would be in the way of all who publish."""
    try:
        check_cost(predicate, PEER_COMPARISONS)
        compile_predicate(predicate, EVENT)
    except InvalidPredicate:
        return False
    return True
