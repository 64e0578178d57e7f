"""Brokers among themselves: who is there, who hears whom, and whom to trust with which type. No I/O but `send`.

Everything is soft state: it is repeated every second, and forgotten when it is not. What brokers tell each other is
signed and dated; whoever repeats it later is not believed. A sign of life is handed on to those who do not hear it
themselves, so that a broker knows of all others that anybody knows of, and of ways to them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping
from math import inf

from authz import Identity
from authz.errors import InvalidKey, InvalidSignature
from authz.seal import Seal
from bus.subjects import link_all, link_to
from pubsub_core.broker import Broker
from pubsub_core.clocks import MAX_SKEW, Clocks
from pubsub_core.event_type import EventType
from pubsub_core.messages import Carried, Hello, unpack_numbered
from pubsub_core.notes import Notes
from pubsub_core.session import Peer
from pubsub_core.trust import Web, beat

HELLO = Seal("broker hello", Hello)
LINE_TTL = 2.2
"""Seconds without a sign of life on a line after which it is not used, and others are asked to hand signs on."""
PEER_TTL = 5.0
"""Seconds without a sign of life on any way after which a broker is taken to be gone."""
MAX_STRANGERS = 64
"""The most brokers that are listened to though they are trusted with nothing known here."""
MAX_NAMES = 8
"""The most names under which one key may be a broker."""
MAX_NAME_LENGTH = 128
"""The longest name of a broker, or of a domain, that is listened to: others' names are part of what is said."""
MAX_PEERS = 1_000
"""The most brokers that are listened to at all."""
HELLO_VOUCH_BYTES = 128 * 1024
"""How much of a sign of life is vouches: it has to fit a message, however many there are."""
HELLO_BEATS = 512
"""The most heartbeats in a sign of life."""
HASTE_SECONDS = 0.2
"""How soon after another a sign of life is given out of turn, to hand on what somebody said about brokers."""


class Links:
    """A broker's connections to all others."""

    def __init__(
        self,
        broker: Broker,
        web: Web,
        owners: Iterable[Identity] = (),
        network: bytes = b"",
        neighbours: Collection[str] = (),
    ) -> None:
        """`owners` are those whose heartbeats this broker sends; `network` is what all brokers share, if anything.

        With `neighbours`, it has lines to these only, and reaches all others through them.
        """
        self._broker = broker
        self._web = web
        self._owners = tuple(owners)
        self._neighbours = frozenset(neighbours)
        self._told: dict[str, float] = {}
        self._hurried = -inf
        self.clocks = Clocks()
        broker.within_reach = self._within_reach
        for each in broker.setting.catalogue:
            self._learn_owner(each.definition)
        broker.setting.catalogue.on_accept.append(self._learn_owner)
        self.notes = Notes(broker, web.would_trust, network)
        self.hear_past: Callable[[bytes], None] = lambda data: None
        """Takes what others ask about the past, and answer."""

    def tick(self) -> None:
        """Every second: say that one is there, and forget those who are not."""
        now, peers = self._broker.setting.now(), self._broker.peers
        for owner in self._owners:
            self._web.hear(str(owner.public), beat(now, owner), now)
        self._web.forget(now)
        self._broker.repeats.forget(now)
        # What is older than clocks may differ does not count anyway.
        self._told = {key: at for key, at in self._told.items() if now - at <= MAX_SKEW}
        for name in [name for name, peer in peers.items() if now - peer.heard > PEER_TTL]:
            self._forget(name)
        self.clocks.tick(now)
        for peer in peers.values():
            peer.near = peer.near and now - peer.heard_near <= LINE_TTL
        self.review(now)
        self._say_hello()

    def leave(self) -> None:
        """Say goodbye."""
        self._say_hello(leaving=True)

    def refresh(self) -> None:
        """Our keys are other ones: tell all others anew what is wanted here, and have them tell us."""
        self._broker.switchboard.version += 1
        for peer in self._broker.peers.values():
            peer.version = -1
            self._tell(peer)

    def hear_hello(self, data: bytes, near: bool = True) -> None:
        """Take a sign of life; `near` says that it came on the line from the broker itself."""
        try:
            opened = HELLO.read(data)
        except InvalidSignature:
            self._broker.counts.forged += 1
            return
        hello = opened.value
        if near and self._neighbours and hello.name not in self._neighbours:
            return
        met = hello.name not in self._broker.peers
        peer = self._peer(hello, str(opened.signer), near)
        if peer is not None:
            self._hand_on(hello.name, data)
            self._greet(peer, hello, met)

    def hear_vouch(self, data: bytes) -> None:
        """Take somebody's word for a broker, or that it is taken back; other brokers hear of it with the next hello."""
        try:
            news = self._web.learn(data)
        except InvalidSignature:
            self._broker.counts.forged += 1
            return
        now = self._broker.setting.now()
        if news and now - self._hurried >= HASTE_SECONDS:
            self._hurried = now
            self._ask_untold()
            self.review(now)
            self._say_hello()

    def hear_note(self, data: bytes) -> None:
        opened = self.notes.read(data)
        if opened is None:
            return
        note, now = opened.value, self._broker.setting.now()
        peer = self._broker.peers.get(note.name)
        if peer is None or peer.key != str(opened.signer) or not abs(now - note.time) <= MAX_SKEW:
            self._broker.counts.untrusted += peer is not None
            return
        peer.heard = now
        self.notes.learn(peer, note, opened.signer)
        self.review(now)
        self.notes.answer(peer, note)

    def hear_carried(self, carried: Carried) -> None:
        """Take what other brokers have carried here, or hand it on."""
        own, *further = carried.route or ("",)
        if own != self._broker.setting.name:
            self._broker.counts.unroutable += 1
        elif further:
            self._broker.counts.carried += 1
            self._broker.ways.carry(Carried(tuple(further), carried.what, carried.data))
        elif carried.what == "hello":
            self.hear_hello(carried.data, near=False)
        elif carried.what == "note":
            self.hear_note(carried.data)
        elif carried.what == "past":
            self.hear_past(carried.data)
        else:
            self._broker.hear(unpack_numbered(carried.data))

    def review(self, now: float) -> None:
        """Look again at who is trusted with what and can be reached."""
        broker, web = self._broker, self._web
        types = {each.definition.id: each.definition.owner for each in broker.setting.catalogue}
        web.owners = frozenset(types.values())
        for peer in broker.peers.values():
            peer.carries = {id_ for id_, owner in types.items() if web.trusts(peer.key, id_, owner, now)}
        broker.ways.refresh()
        for peer in broker.peers.values():
            self._serve(peer, now)

    def _learn_owner(self, definition: EventType) -> None:
        """Let what the owner has said count before anything of its type is delivered."""
        self._web.owners |= {definition.owner}

    def _within_reach(self, type_: str) -> bool:
        """Whether the owner of a type is within reach. What is not known has no owner to be."""
        catalogue = self._broker.setting.catalogue
        if not catalogue.knows(type_):
            return False
        return self._web.reachable(catalogue.newest(type_).owner, self._broker.setting.now())

    def _serve(self, peer: Peer, now: float) -> None:
        """Send a broker from now on what it wants, as far as it may have it and there is a way to it."""
        broker = self._broker
        for id_ in peer.wants:
            if broker.ways.reaches(peer, id_):
                peer.reached[id_] = now
        # While a way is looked for, what it wants is numbered and kept, to be sent when there is one.
        wanted = {
            id_: filters
            for id_, filters in peer.wants.items()
            if peer.ready and id_ in peer.carries and now - peer.reached.get(id_, 0.0) <= PEER_TTL
        }
        # Whoever is trusted with a type and has it sealed is believed: nothing of it is to leave here in clear either.
        broker.setting.vault.mark_sealed(peer.seals & peer.carries)
        if wanted != peer.served:
            changed = wanted.keys() ^ peer.served.keys()
            peer.served = wanted
            broker.switchboard.hear(peer.name, wanted)
            for id_ in changed:
                broker.tell_interest(id_)

    def _peer(self, hello: Hello, key: str, near: bool) -> Peer | None:
        """The broker that says it is there, if it may be listened to and says something new."""
        setting, peers = self._broker.setting, self._broker.peers
        now = setting.now()
        if hello.name == setting.name:
            return None
        if max(len(hello.name), len(hello.domain)) > MAX_NAME_LENGTH:
            self._broker.counts.untrusted += 1
            return None
        peer = peers.get(hello.name)
        if not abs(now - hello.time) <= MAX_SKEW:
            self._broker.counts.skewed += 1
            if peer is None:
                self.clocks.ignored(hello.name, hello.time, now)
            return None
        if peer is not None and peer.key != key:
            self._learn(hello, now)
            if self._is_of_use(peer.key, now) or not self._is_of_use(key, now):
                self._broker.counts.untrusted += 1
                return None
            self._forget(hello.name)  # whoever only has the name must not be in the way of whoever is trusted
            peer = None
        if peer is not None and near and hello.time >= self._told.get(key, 0.0):
            peer.near, peer.heard_near = True, now  # though others were faster to tell of it
        if hello.time <= self._told.get(key, 0.0):
            return None
        if peer is None and not self._has_room(hello, key, now):
            self._broker.counts.untrusted += 1
            return None
        self._told[key] = hello.time
        if peer is None:
            subject = link_to(setting.domain, hello.name, "events")
            cached = link_to(setting.domain, hello.name, "cached")
            self.clocks.believed(hello.name)
            peer = peers[hello.name] = Peer(hello.name, hello.domain, key, now, subject, cached)
            peer.near, peer.heard_near = near, now
        peer.heard = now
        return peer

    def _has_room(self, hello: Hello, key: str, now: float) -> bool:
        """Whether one more can be listened to: any that is trusted with something, of others only so many."""
        peers = self._broker.peers.values()
        if len(peers) >= MAX_PEERS or sum(peer.key == key for peer in peers) >= MAX_NAMES:
            return False
        gone = self._told.keys() - {peer.key for peer in peers}  # who said goodbye and may come again
        if len(gone) + sum(not peer.carries for peer in peers) < MAX_STRANGERS:
            return True
        self._learn(hello, now)
        owners = {each.definition.id: each.definition.owner for each in self._broker.setting.catalogue}
        return self._is_trusted(key, owners, now)

    def _is_of_use(self, key: str, now: float) -> bool:
        """Whether the broker with this key is trusted with any type that clients here publish or want."""
        owners = {each.definition.id: each.definition.owner for each in self._broker.setting.catalogue}
        types = self._broker.types_in_use & owners.keys()
        return self._is_trusted(key, {id_: owners[id_] for id_ in types}, now)

    def _is_trusted(self, key: str, owners: Mapping[str, str], now: float) -> bool:
        """Whether the broker with this key is trusted with one of these types, whose owners are given."""
        return any(self._web.trusts(key, id_, owner, now) for id_, owner in owners.items())

    def _greet(self, peer: Peer, hello: Hello, met: bool) -> None:
        """Take in what a sign of life says."""
        now = self._broker.setting.now()
        peer.groups, peer.hears = frozenset(hello.groups), frozenset(hello.hears)
        peer.ready = hello.knows.get(self._broker.setting.name) == self._broker.forwarding.boot
        self._join(peer, hello)
        self._learn(hello, now)
        if hello.leaving:
            self._forget(hello.name)
        self.review(now)
        if not hello.leaving and (met or peer.version != hello.wants):
            self._tell(peer)

    def _hand_on(self, name: str, data: bytes) -> None:
        """Hand a sign of life on to those who do not hear it themselves."""
        for peer in self._broker.peers.values():
            if peer.near and peer.name != name and name not in peer.hears:
                self._broker.ways.carry(Carried((peer.name,), "hello", data))

    def _join(self, peer: Peer, hello: Hello) -> None:
        """Find one's place on the line from another broker, and see that nothing is missing."""
        sent = hello.lines.get(self._broker.setting.name, 0)
        if peer.agreement != hello.agreement:
            with contextlib.suppress(InvalidKey):
                peer.secret = self._broker.agreement.shared(hello.agreement)
            peer.agreement = hello.agreement
        if peer.incoming.boot != hello.boot:
            self._broker.repeats.doubt(peer.name, peer.heard)
            peer.incoming.begin(hello.boot, sent)
        elif peer.incoming.lacks(sent):
            self.notes.ask_again(peer)

    def _learn(self, hello: Hello, now: float) -> None:
        try:
            if self._web.learn(*hello.vouches):
                self._ask_untold()
        except InvalidSignature:
            self._broker.counts.forged += 1
        for owner in hello.beats.keys() & self._web.owners:
            with contextlib.suppress(InvalidSignature):
                self._web.hear(owner, hello.beats[owner], now)

    def _ask_untold(self) -> None:
        """Somebody may be trusted now whose definitions were not taken before: have them told again."""
        peers, untold = self._broker.peers, self.notes.untold
        for name in untold & peers.keys():
            self.notes.ask_for_types(peers[name])
        untold.clear()

    def _forget(self, name: str) -> None:
        peer = self._broker.peers.pop(name)
        self.notes.untold.discard(name)
        self._broker.switchboard.hear(name, {})
        for id_ in peer.served:
            self._broker.tell_interest(id_)

    def _tell(self, peer: Peer) -> None:
        """Tell a broker everything it should know, and ask for the same."""
        self._broker.ways.send(peer, "hello", self._hello())
        self.notes.tell(peer, ask=True)

    def _say_hello(self, leaving: bool = False) -> None:
        setting = self._broker.setting
        setting.send(link_all(setting.domain, "hello"), self._hello(leaving))

    def _hello(self, leaving: bool = False) -> bytes:
        setting, web, switchboard = self._broker.setting, self._web, self._broker.switchboard
        switchboard.wants()
        peers = self._broker.peers
        hello = Hello(
            setting.name,
            setting.domain,
            setting.now(),
            switchboard.version,
            web.words.page(HELLO_VOUCH_BYTES),
            web.beats(HELLO_BEATS),
            leaving,
            tuple(sorted(setting.vault.ring.groups)),
            self._broker.agreement.public,
            self._broker.forwarding.boot,
            {name: peer.outgoing.number for name, peer in peers.items()},
            tuple(sorted(name for name, peer in peers.items() if peer.near)),
            {name: peer.incoming.boot for name, peer in peers.items() if peer.secret},
        )
        return HELLO.sign(hello, setting.identity)
