"""Brokers among themselves: who is there, what they want, and whom to trust with which type. No I/O but `send`.

Each says so in signed records below a place of its own, of which the newest are kept for those who come later: a sign
of life, repeated every few seconds; the vouches and withdrawals it was started with or told of; the heartbeats of
owners; and definitions, for brokers of other domains. Signs of life are dated, and whoever repeats an old one is not
believed. Nothing that brokers send each other depends on them: they tell publishers whether anybody is interested, and
readers of the past whom to ask.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping
from math import inf

from authz import Identity
from authz.crypto import AgreementKey
from authz.errors import InvalidKey, InvalidSignature
from bus.wire import subjects
from pubsub_core.carriage.carrier_rights import carrier_record
from pubsub_core.carriage.clock_skew import MAX_SKEW, Clocks
from pubsub_core.carriage.policy_records import PolicyRecords
from pubsub_core.carriage.records import (
    HELLO,
    HELLO_SECONDS,
    MAX_NAME_LENGTH,
    MAX_NAMES,
    MAX_PEERS,
    MAX_STRANGERS,
    MAX_WANTS,
    Hello,
    Peer,
    token_of,
    word_record,
)
from pubsub_core.carriage.type_exchange import TypeExchange
from pubsub_core.delivery import Counts, Setting, SubscriptionTable
from pubsub_core.trust import Web, beat
from pubsub_core.types import EventType

FEW = 10
"""Maximum brokers with a heartbeat every `HELLO_SECONDS`; among more it is less frequent."""
MOST_HELLO_SECONDS = 3 * HELLO_SECONDS
"""Maximum seconds between two heartbeats of a broker, among very many."""
MISSED_HELLOS = 2.4
"""Heartbeat intervals without a heartbeat after which a broker counts as gone."""
BEAT_SECONDS = 1.0
"""Seconds between two heartbeats of owners."""
WORD_SECONDS = 60.0
"""Seconds between two publications of a broker's own vouches: the store may have lost them."""
MAX_HASTE = 5
"""Maximum heartbeats out of turn between two ticks."""
AWAY_SECONDS = 3600.0
"""Seconds after which a broker that is away is no longer missed."""
PAGE_BYTES = 1024 * 1024
"""Maximum bytes of vouches repeated for the brokers of a domain that is new."""


class Presence:
    """What a broker knows of all others, and tells them of itself."""

    def __init__(
        self,
        setting: Setting,
        counts: Counts,
        subscriptions: SubscriptionTable,
        web: Web,
        place: str,
        in_use: Callable[[], Collection[str]],
        tell_interest: Callable[[str], None],
        owners: Iterable[Identity] = (),
        network: bytes = b"",
    ) -> None:
        """`place` is where this broker publishes; `in_use` gives the types that clients here publish or want.

        `owners` are those whose heartbeats it sends; `network` is a secret that all brokers share, if they do.
        """
        self._setting = setting
        self._counts = counts
        self._subscriptions = subscriptions
        self._web = web
        self._place = place
        self._in_use = in_use
        self._tell_interest = tell_interest
        self._owners = tuple(owners)
        self._policy_records = PolicyRecords(setting, counts, network)
        self._agreement = AgreementKey.of(setting.identity)
        self._boot = int(setting.now() * 1000)
        self._told: dict[str, float] = {}
        """The time of the last sign of life of each key."""
        self._said = self._beaten = self._worded = -inf
        self._trust = (-1, -1)  # the versions of vouches and definitions at the last review
        self._reviewed = self._due = -inf
        """When that was, and when a vouch runs out, or begins to count, after it."""
        self._hurried, self._haste = False, 0
        self._wants: frozenset[str] = frozenset()
        """The types that are wanted here, and read from the stream."""
        self._carried: set[str] = set()
        """The owners of whose types this broker has said that it carries them."""
        self._domains: set[str] = set()
        """Other domains whose brokers were told definitions."""
        self.told = TypeExchange(setting, counts, web, network, self._say)
        self.peers: dict[str, Peer] = {}
        self.met: dict[str, tuple[str, float, str]] = {}
        """Every broker that was there in the last hour, by name: its key, when, and the history that it shares."""
        self.clocks = Clocks()
        for each in setting.catalogue:
            self._learn_owner(each.definition)
        setting.catalogue.on_accept.append(self._learn_owner)

    @property
    def _versions(self) -> tuple[int, int]:
        return self._web.words.version, self._setting.catalogue.revision

    @property
    def _every(self) -> float:
        """Seconds between two signs of life: each broker verifies those of all others."""
        return min(HELLO_SECONDS * max(1.0, len(self.peers) / FEW), MOST_HELLO_SECONDS)

    def carries(self, type_: str) -> bool:
        """Whether this broker itself is trusted with a type."""
        return self.trusts(str(self._setting.identity.public), type_)

    def trusts(self, key: str, type_: str) -> bool:
        """Whether the broker with this key may carry a type, by UUID. What is not known has no owner to say so."""
        catalogue = self._setting.catalogue
        if not catalogue.knows(type_):
            return False
        return self._web.trusts(key, type_, catalogue.newest(type_).owner, self._setting.now())

    def within_reach(self, type_: str) -> bool:
        """Whether the owner of a type is within reach. What is not known has no owner to be."""
        catalogue = self._setting.catalogue
        if not catalogue.knows(type_):
            return False
        return self._web.reachable(catalogue.newest(type_).owner, self._setting.now())

    def start(self) -> None:
        """Make oneself known, with the vouches that one was started with."""
        self._beat()
        self.say_words()
        self.say_hello()

    def say_words(self) -> None:
        """Tell all others by what this broker may carry types."""
        self._worded = self._setting.now()
        for each in self.own_records():
            self._say(*each)

    def own_records(self) -> list[tuple[str, bytes]]:
        """By what this broker may carry types: whose it carries, and the vouches that it was started with."""
        setting = self._setting
        self._carried = {each.definition.owner for each in setting.catalogue}
        carrier = carrier_record(self._place, self._carried, setting.now(), setting.identity)
        return [carrier, *map(word_record, self._web.words.pinned)]

    def tick(self) -> None:
        """Every second: say that one is there when it is time, and forget those who are not."""
        now, self._haste = self._setting.now(), 0
        if _is_due(self._beaten, BEAT_SECONDS * 0.9, now):
            self._beat()
        self._web.forget(now)
        self._told = {key: at for key, at in self._told.items() if abs(now - at) <= MAX_SKEW}
        for peer in self.peers.values():
            peer.heard = min(peer.heard, now)
        for name in [
            name for name, peer in self.peers.items() if now - peer.heard > MISSED_HELLOS * peer.every
        ]:
            self._forget(name)
        self.met = {name: each for name, each in self.met.items() if each[1] > now - AWAY_SECONDS}
        self.clocks.tick(now)
        if self._trust != self._versions or not self._reviewed <= now < self._due:
            self.review()
        if _is_due(self._worded, WORD_SECONDS, now):
            self.say_words()
        if self._hurried or _is_due(self._said, self._every, now):
            self.say_hello()

    def review(self) -> None:
        """Look again at who is trusted with what, and wants it."""
        types, self._reviewed = self._types(), self._setting.now()
        self._web.owners = frozenset(types.values())
        self._trust, self._due = self._versions, self._web.words.next_end(self._reviewed)
        if self._carried != self._web.owners:
            self.say_words()
        for peer in self.peers.values():
            self._review(peer, types)
        self.told.review()

    def _types(self) -> dict[str, str]:
        """The owner of each type that is known here, by UUID."""
        return {each.definition.id: each.definition.owner for each in self._setting.catalogue}

    def _review(self, peer: Peer, types: Mapping[str, str]) -> None:
        now, trusts = self._setting.now(), self._web.trusts
        peer.carries = {id_ for id_, owner in types.items() if trusts(peer.key, id_, owner, now)}
        # Whoever is trusted with a type and has it sealed is believed: nothing of it leaves here in clear either.
        self._setting.vault.mark_sealed(peer.seals & peer.carries)
        for id_ in self._subscriptions.hear(peer.name, peer.wants & peer.carries):
            self._tell_interest(id_)

    def announce(self, wants: Collection[str]) -> None:
        """Tell all others, if it is news, that these types are wanted, and read from the stream."""
        if self._wants != frozenset(wants):
            self._wants = frozenset(wants)
            self.hurry()

    def hurry(self) -> None:
        """Give a sign of life before it is time: now, or if many were given just now, soon."""
        self._hurried = True
        if self._haste < MAX_HASTE:
            self._haste += 1
            self.say_hello()

    def leave(self) -> None:
        self.say_hello(leaving=True)

    def say_hello(self, leaving: bool = False) -> None:
        """Give a sign of life."""
        setting, now = self._setting, self._setting.now()
        hello = Hello(
            setting.name,
            setting.domain,
            now,
            self._boot,
            tuple(sorted(self._wants))[:MAX_WANTS],
            tuple(sorted(setting.vault.sealed)),
            tuple(sorted(setting.vault.ring.groups)),
            self._agreement.public,
            leaving,
            setting.history,
            self._every,
        )
        self._said, self._hurried = now, False
        self._say(f"hello.{token_of(setting.name.encode())}", HELLO.sign(hello, setting.identity))

    def say_word(self, word: bytes) -> None:
        """Tell all others a vouch, or that it is taken back."""
        self._say(*word_record(word))

    def say_types(self) -> None:
        """Tell all others the definitions that are known here, and what their owners say of them."""
        self.told.say()
        for name, policy in self._policy_records:
            self._say(name, policy)

    def say_types_elsewhere(self) -> None:
        """The same if there are brokers of other domains, who may have another store."""
        if self._domains:
            self.say_types()

    def hear(self, subject: str, data: bytes, stored: bool = False) -> None:
        """Take in a record; `stored` says that it was kept, and may be old."""
        _, _, _, place, what, *_ = subject.split(".")
        if place == self._place and what == "hello":
            return  # its own, which costs as much to verify as another's
        dated = {"hello": self._hear_hello, "beat": self._hear_beat}
        plain = {"word": self._hear_word, "type": self.told.hear, "policy": self._policy_records.hear}
        if what in dated:
            dated[what](data, stored)
        elif what in plain:
            plain[what](data)

    def _hear_hello(self, data: bytes, stored: bool) -> None:
        try:
            opened = HELLO.read(data)
        except InvalidSignature:
            self._counts.forged += 1
            return
        hello, key = opened.value, str(opened.signer)
        if hello.name == self._setting.name:
            return
        if stored and not self._setting.now() - hello.time <= MAX_SKEW:
            if self._setting.now() - hello.time < AWAY_SECONDS and not hello.leaving:
                self.met.setdefault(hello.name, (key, self._setting.now(), hello.history))
            return
        met = hello.name not in self.peers
        peer = self._peer(hello, key)
        if peer is not None:
            self._greet(peer, hello, met)

    def _hear_word(self, data: bytes) -> None:
        try:
            if self._web.learn(data):
                self.review()
        except InvalidSignature:
            self._counts.forged += 1

    def _hear_beat(self, data: bytes, stored: bool) -> None:
        """Take in an owner's heartbeat; one that was kept says only that there are some to be heard."""
        with contextlib.suppress(InvalidSignature):
            if stored:
                self._web.expect(data)
            else:
                self._web.hear_any(data, self._setting.now())

    def _learn_owner(self, definition: EventType) -> None:
        """Let what the owner has said count before anything of its type is delivered."""
        self._web.owners |= {definition.owner}

    def _beat(self) -> None:
        now = self._beaten = self._setting.now()
        for owner in self._owners:
            data = beat(now, owner)
            self._web.hear(str(owner.public), data, now)
            self._say(f"beat.{subjects.place(owner.public)}", data)

    def _peer(self, hello: Hello, key: str) -> Peer | None:
        """The broker that says it is there, if it may be listened to and says something new."""
        now, peer = self._setting.now(), self.peers.get(hello.name)
        if max(len(hello.name), len(hello.domain)) > MAX_NAME_LENGTH:
            self._counts.untrusted += 1
            return None
        if not abs(now - hello.time) <= MAX_SKEW:
            self._counts.skewed += 1
            if peer is None:
                self.clocks.ignored(hello.name, hello.time, now)
            return None
        if peer is not None and peer.key != key:
            if self._is_of_use(peer.key) or not self._is_of_use(key):
                self._counts.untrusted += 1
                return None
            self._forget(hello.name)  # whoever only has the name must not be in the way of whoever is trusted
            peer = None
        if hello.time <= self._told.get(key, 0.0):
            return None
        if peer is None and not self._has_room(key):
            self._counts.untrusted += 1
            return None
        self._told[key] = hello.time
        if peer is None:
            self.clocks.believed(hello.name)
            peer = self.peers[hello.name] = Peer(hello.name, hello.domain, key, now)
        peer.heard = now
        peer.every = min(max(hello.every, HELLO_SECONDS), MOST_HELLO_SECONDS)
        self.met[hello.name] = key, now, hello.history
        return peer

    def _has_room(self, key: str) -> bool:
        """Whether one more can be listened to: any that is trusted with something, and a bounded number of others."""
        peers = self.peers.values()
        if len(peers) >= MAX_PEERS or sum(peer.key == key for peer in peers) >= MAX_NAMES:
            return False
        gone = self._told.keys() - {peer.key for peer in peers}  # who said goodbye and may come again
        if len(gone) + sum(not peer.carries for peer in peers) < MAX_STRANGERS:
            return True
        return any(self.trusts(key, each.definition.id) for each in self._setting.catalogue)

    def _is_of_use(self, key: str) -> bool:
        """Whether the broker with this key is trusted with any type that clients here publish or want."""
        return any(self.trusts(key, id_) for id_ in self._in_use())

    def _greet(self, peer: Peer, hello: Hello, met: bool) -> None:
        """Take in what a sign of life says, and answer somebody new at once."""
        if peer.agreement != hello.agreement:
            peer.secret = b""
            with contextlib.suppress(InvalidKey):
                peer.secret = self._agreement.shared(hello.agreement)
            peer.agreement = hello.agreement
        started, peer.boot = peer.boot != hello.boot, hello.boot
        before = peer.seals, peer.wants
        peer.groups, peer.seals = frozenset(hello.groups), frozenset(hello.seals)
        peer.wants = frozenset(hello.wants)
        if hello.leaving:
            self._forget(hello.name)
            self._told[peer.key] = hello.time
            return
        if met or started or before != (peer.seals, peer.wants):  # what else changes, `tick` sees
            self._review(peer, self._types())
        if met or started:
            self._introduce(peer)

    def _introduce(self, peer: Peer) -> None:
        """Make oneself known to a broker that is new, and have it hear the owners at once."""
        self.hurry()
        self._beat()
        if peer.domain != self._setting.domain and peer.domain not in self._domains:
            # It may be of another account, whose stream has taken in nothing before there was one.
            self._domains.add(peer.domain)
            for each in self._web.words.page(PAGE_BYTES):
                self.say_word(each)
            self.say_types()

    def _forget(self, name: str) -> None:
        del self.peers[name]
        for id_ in self._subscriptions.hear(name, frozenset()):
            self._tell_interest(id_)

    def _say(self, what: str, data: bytes) -> None:
        self._setting.send(subjects.broker_record(self._setting.domain, self._place, what), data)


def _is_due(since: float, seconds: float, now: float) -> bool:
    """Whether so much time has passed, by a clock that may have been set back meanwhile."""
    return not 0 <= now - since < seconds
