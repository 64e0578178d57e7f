"""Reauthorization: the grants of clients, decided when they ask and again when policies change.

Invariants: what is in force was granted by policies of `epoch` or newer, or by older ones that no change since touches;
what nobody answered is not granted, and asked again; what was granted for a time is asked again when that is over.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from math import inf

from authz import Entity
from authz.predicate import TRUE, Predicate
from authz.spki import Right
from bus.runtime import Turns
from pubsub_core.access import (
    CONTEXT,
    REPLAY,
    Ask,
    Enforcement,
    Generic,
    Granted,
    Holder,
    Ledger,
    Reach,
    Restriction,
    Rights,
)
from pubsub_core.broker.core import Broker
from pubsub_core.delivery import Playback, Session, Subscription
from pubsub_core.errors import InvalidFilter, SessionLost
from pubsub_core.history import read_fluent
from pubsub_core.messages import Tense
from pubsub_core.rules import Interaction, Judge, SubscriberFilter, altered, fits_instead, without
from pubsub_core.types import bind_filter

_log = logging.getLogger("authfabric.events")

BATCH = 16
"""Maximum claims that are asked about at once."""
LOOK = 32 * BATCH
"""Claims after which garbage is looked for: Python, which sees as much freed as made, would look at all of it later."""
RETRY_SECONDS = 1.0
"""Seconds before a request that nobody answered is repeated."""


def replay_ask(holder: Holder, playback: Playback) -> Ask:
    """What is asked about past events: with the times that they are wanted of; if a rule sends them, as ever."""
    if playback.tense is Tense.AGAIN:
        return Ask(holder, Right.SUBSCRIBE, playback.type, playback.fixed)
    query = playback.query
    fluents = tuple(read_fluent(each).name for each in (query.during, query.not_during) if each)
    return Ask(holder, Right.SUBSCRIBE, playback.type, playback.fixed, query.context, fluents)


@dataclass(frozen=True, slots=True)
class Claim:
    """Something a client asked for, of which as much is granted as policies leave."""

    session: Session
    ask: Ask
    subscription: Subscription | None
    """None for an advertisement."""

    @property
    def key(self) -> object:
        """What tells it from all others."""
        return self.subscription or (self.session.token, self.ask.type)

    @property
    def stands(self) -> bool:
        """Whether the client still wants it."""
        if self.subscription is None:
            return self.ask.type in self.session.advertised
        if isinstance(self.subscription, Playback):
            under_way = self.session.playbacks.get(self.subscription.key) is self.subscription
            return under_way or self.subscription in self.session.played
        return self.session.subscriptions.get(self.subscription.number) is self.subscription


class Claims:
    """Everything that a broker's clients have asked for."""

    def __init__(
        self,
        broker: Broker,
        rights: Rights,
        generic: Mapping[str, Generic],
        on_change: Callable[[set[str]], None],
    ) -> None:
        """`on_change` is told the types of which other events are wanted, or published, from now on."""
        self._broker = broker
        self._catalogue, self._vault = broker.setting.catalogue, broker.setting.vault
        self._now = broker.setting.now
        self._rights = rights
        self._generic = generic
        self._on_change = on_change
        self.epoch = 0
        """The policies by which everything here is granted, or newer ones."""
        self._expected = 0
        self._rounds = 0
        """How often everything, or all of some types, was asked anew."""
        self._due: dict[object, tuple[float, Claim]] = {}
        """What must be asked again, and when: it was not answered, or expires."""
        self.ledger = Ledger()
        """What clients have used of the rates in their capabilities."""
        self._ends: dict[object, float] = {}
        """Until when what was last granted of a claim holds; for ever, if it is not here."""

    async def reauthorize(self, epoch: int, keep: bool = True, types: Collection[str] | None = None) -> None:
        """Work out anew what is granted of everything that was asked for, by policies of this epoch or newer.

        If they are the same as before, and nobody answers, what was granted goes on while it holds, unless `keep` is
        false. With `types`, newer policies leave the same rights on all others.
        """
        same, self.epoch = keep and epoch == self.epoch, epoch
        self._rounds += 1
        concerned = self._asked_types()
        if types is not None:
            concerned = {each for each in concerned if not self._family(each).isdisjoint(types)}
        sessions = tuple(self._broker.sessions.values())
        await self._ask((claim for each in sessions for claim in self._of(each, concerned)), keep=same)
        catalogue = self._catalogue
        self._on_change({each.definition.id for each in catalogue} if types is None else set(types))

    @property
    def newest(self) -> int:
        """The newest policies that are known to exist: whatever is new is granted by these, or newer ones."""
        return max(self.epoch, self._expected)

    @property
    def edition(self) -> tuple[int, int]:
        """Becomes another whenever something may be granted otherwise: what was granted before counts no more."""
        return self.newest, self._rounds

    def expect(self, epoch: int) -> None:
        """There are policies of this epoch, and everything that they touch will be asked anew."""
        self._expected = max(epoch, self._expected)

    def reached(self, reaches: Reach) -> set[str] | None:
        """The types of which a change of policies may leave other rights; None if more than that may be different."""
        sessions = self._broker.sessions.values()
        replays = (replay_ask(session.holder, each) for session in sessions for each in session.replays)
        fluents = {fluent for ask in replays for fluent in ask.fluents}
        if any(reaches(Entity(f"{CONTEXT}/{each}"), REPLAY) for each in fluents):
            return None
        found = self._rights.reached(self._asked_types(), reaches)
        return None if found & self._broker.triggers.involved() else found

    def _asked_types(self) -> set[str]:
        """The types, by UUID, that anything was asked about."""
        types = set[str]()
        for session in self._broker.sessions.values():
            types.update(session.advertised, (each.type for each in session.subscriptions.values()))
            types.update(each.type for each in session.replays)
        return types

    async def review(self) -> None:
        """Ask again about what was not answered, and about what was granted for a time that is over."""
        now = self._now()
        due = [claim for at, claim in self._due.values() if at <= now]
        if due:
            await self._ask(due, keep=True)
            self._on_change({id_ for type_ in {each.ask.type for each in due} for id_ in self._family(type_)})

    async def _ask(self, claims: Iterable[Claim], keep: bool) -> None:
        """Ask about these, some at a time, and put in force what is granted; others have their turns meanwhile."""
        epoch, turns, claims, asked = self.epoch, Turns(), iter(claims), 0
        while some := list(islice(claims, BATCH)):
            asked += len(some)
            if asked % LOOK == 0:
                gc.collect(1)
            grants = await self._rights.grants([each.ask for each in some], self._now(), epoch)
            for claim, granted in zip(some, grants, strict=True):
                if not claim.stands or claim.session.token not in self._broker.sessions:
                    self._due.pop(claim.key, None)
                    self._ends.pop(claim.key, None)
                elif epoch == self.epoch:
                    self.settle(claim, granted, keep)
                else:
                    return  # somebody is asking by newer policies
                await turns.end()

    def _family(self, type_: str) -> set[str]:
        """A type and those that extend it, by UUID."""
        catalogue = self._catalogue
        return {each.id for each in catalogue.family(type_)} if catalogue.knows(type_) else {type_}

    def _of(self, session: Session, types: Collection[str]) -> Iterator[Claim]:
        """What a client has asked for of these types, as of now."""
        holder = session.holder
        subscriptions, replays = tuple(session.subscriptions.values()), tuple(session.replays)
        advertised = tuple(session.advertised)
        for each in subscriptions:
            if each.type in types:
                yield Claim(session, Ask(holder, Right.SUBSCRIBE, each.type, each.fixed), each)
        for replay in replays:
            if replay.type in types:
                yield Claim(session, replay_ask(holder, replay), replay)
        for id_ in advertised:
            if id_ in types:
                yield Claim(session, Ask(holder, Right.PUBLISH, id_), None)

    async def granted(self, claim: Claim) -> Granted:
        """What is granted now, by policies no older than those that everything else will be granted by."""
        while True:
            edition = self.edition
            (granted,) = await self._rights.grants([claim.ask], self._now(), self.newest)
            if self.edition == edition:
                return granted

    def begin(self, claim: Claim, granted: Granted) -> None:
        """Put in force what is granted of a new claim. Raises SessionLost, InvalidFilter."""
        if claim.session.token not in self._broker.sessions:
            raise SessionLost("it ended meanwhile")
        self.settle(claim, granted)
        if claim.subscription is not None and not claim.subscription.granted:
            # Then the filter is about what may not be read.
            self.bound(claim.subscription, next(iter(granted.restrictions.values())))

    def settle(self, claim: Claim, granted: Granted, keep: bool = False) -> None:
        """Put the grant of a claim in force. With `keep`, a missing answer leaves it as it was while that is valid."""
        now, key = self._now(), claim.key
        self._due.pop(key, None)
        if not granted.answered:
            self._due[key] = now + RETRY_SECONDS, claim
            if keep and now < self._ends.get(key, inf):
                return
        elif granted.expires is not None:
            self._due[key] = granted.expires, claim
        if granted.expires is None:
            self._ends.pop(key, None)
        else:
            self._ends[key] = granted.expires
        session, subscription = claim.session, claim.subscription
        if subscription is None:
            before = session.adverts.get(claim.ask.type, {})
            session.adverts[claim.ask.type] = {
                id_: self._enforcement(before.get(id_), left, claim)
                for id_, left in granted.restrictions.items()
            }
            return
        parts: dict[str, tuple[Enforcement, Predicate]] = {}
        for id_, left in granted.restrictions.items():
            try:
                asked = self.bound(subscription, left)
            except InvalidFilter:  # it may no longer ask about what it asks about, so it gets nothing
                continue
            if not all(self._can_judge(id_, each) for each in left.every_rule):
                continue
            for each in left.every_rule:
                asked = without(asked, altered(each.changes, self._catalogue, id_))
            parts[id_] = self._enforcement(subscription.granted.get(id_), left, claim), asked
        if isinstance(subscription, Playback):
            subscription.permit(parts, granted.answered)
        else:
            self._broker.subscriptions.connect(subscription, parts)

    def _can_judge(self, id_: str, rules: Interaction) -> bool:
        """Whether this broker can read everything that rules speak of: otherwise it cannot go by them."""
        if id_ not in self._vault.sealed:
            return True
        needed = rules.needs(self._catalogue.names(rules.version))
        able = self._vault.readable(id_, needed) >= needed
        if not able:
            name = self._catalogue.newest(id_).name
            _log.warning("`%s` is not granted: rules speak of what this broker has no keys for", name)
        return able

    def unreadable(self, type_: str) -> str:
        """Why this broker can read nothing of a sealed type, if it is to have no keys; empty if it can."""
        if not self._catalogue.knows(type_):
            return ""
        attributes = self._catalogue.attributes(self._catalogue.newest(type_).version)
        problem = self._vault.refusal(type_, attributes)
        return f"its broker cannot read it: {problem}" if problem else ""

    def end_unreadable(self) -> None:
        """End the sessions of clients that wait for what this broker may no longer read."""
        for session in list(self._broker.sessions.values()):
            for each in session.subscriptions.values():
                if problem := self.unreadable(each.type):
                    name = self._catalogue.newest(each.type).name
                    self._broker.close(session, f"`{name}` is no longer delivered here, since {problem}")
                    break

    def bound(self, subscription: Subscription, left: Restriction) -> Predicate:
        """A filter by the attributes of its type; all, if it is about what rules show instead. Raises InvalidFilter."""
        catalogue = self._catalogue
        names = catalogue.names(catalogue.newest(subscription.type).version)
        ids = [each.id for each in names.values()]
        readable = self._vault.readable(subscription.type, ids)
        if left.visible is not None:
            readable &= left.visible
        try:
            return bind_filter(subscription.predicate, names, readable=readable)
        except InvalidFilter:
            if left.visible is None and fits_instead(
                subscription.filter, subscription.type, left.every_rule, catalogue
            ):
                return TRUE  # it is held against each event as shown
            raise

    def _enforcement(self, before: Enforcement | None, left: Restriction, claim: Claim) -> Enforcement:
        """The same as before if nothing changes."""
        if before is not None and before.restriction == left:
            return before
        client, subscription = str(claim.session.key), claim.subscription
        wanted: SubscriberFilter | None = None
        if subscription is not None and left.every_rule:
            wanted = SubscriberFilter(subscription.filter, subscription.type, self._catalogue)
        book, last = self._broker.setting.rules, len(left.every_rule) - 1
        judges = (
            Judge(each, book, wanted if place == last else None) for place, each in enumerate(left.every_rule)
        )
        return Enforcement(left, self._generic, tuple(judges), client, self.ledger)
