"""Replay at a subscriber's broker: past events are fetched from all brokers that have them, and go to the client.

They go into the same send window as present ones, and so through the same enforcement at the moment they are sent; and
no more of them than the client has room for, so that a slow client slows the reading of the database. Invariant: what
was stored before it was known what the client wants is replayed, and what is routed after is sent; so nothing falls
between past and future. What comes both ways the client knows by publisher, number and time.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Sequence
from typing import cast

import msgspec

from authz.errors import AuthFabricError
from authz.predicate import conjunction
from pubsub_core.broker import Broker, Claim, Claims, replay_ask
from pubsub_core.delivery import (
    WINDOW,
    Item,
    Merge,
    Playback,
    Query,
    Session,
    Source,
    Subscription,
    Waiting,
)
from pubsub_core.events import LOOKBACK, Encoded, encode
from pubsub_core.history import PageWanted
from pubsub_core.messages import Ended, Tense
from pubsub_core.replay.page_service import Pages, PastUnknown
from pubsub_core.replay.rate_limit import Pace
from pubsub_core.replay.rule_replays import RuleSending

SETTLE_SECONDS = 2.5
"""Seconds after its start in which a broker discovers the others."""
CHUNK = 512
"""Maximum events passed on before others have their turn."""


class Replays:
    """Past events on their way to the clients of one broker."""

    def __init__(self, broker: Broker, pages: Pages, claims: Claims) -> None:
        self._broker, self._setting = broker, broker.setting
        self._claims = claims
        self.rules = RuleSending(broker, self._play_unasked)
        """What rules have sent."""
        broker.rule_replays = self.rules
        broker.gaps.recovery = self
        self._pages = pages
        self.paces: dict[tuple[str, str], Pace] = {}
        """What was sent lately, by the names of clients and rules."""
        self._greeted = asyncio.Event()
        """Whether this broker has made itself known to others."""
        self._started = 0.0
        """When it had."""
        self._lost: dict[Subscription, float] = {}
        """Of which subscriptions the past is to be read again, and from when on."""
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, session: Session, playback: Playback) -> None:
        """Send a client the past it asked for, which is among its session's playbacks."""
        if playback.joined is not None:
            playback.joined.later = Waiting()
        self._start(self._play(session, playback))

    def _catch_up(self) -> None:
        """Read again what was missed, for those who want the past too."""
        for asked, start in tuple(self._lost.items()):
            if self._read_again(asked, start):
                del self._lost[asked]

    def recover(self, subscription: Subscription, start: float) -> None:
        """Have what was published since a time sent again."""
        assert subscription.start is not None
        start = max(subscription.start, start - LOOKBACK)
        self._lost[subscription] = min(start, self._lost.get(subscription, start))

    def _read_again(self, asked: Subscription, start: float) -> bool:
        """Begin to, unless the past is on its way as it is: then it must end first."""
        session = self._broker.sessions.get(asked.session)
        if session is None or session.subscriptions.get(asked.number) is not asked:
            return True
        playback = Playback(asked.session, asked.number, asked.type, asked.filter)
        playback.query, playback.owed = Query(start), True
        if asked.number in session.playbacks:
            return False
        playback.joined, asked.later = asked, Waiting()
        session.playbacks[playback.key] = playback
        self._play_unasked(session, playback)
        return True

    def _play_unasked(self, session: Session, playback: Playback) -> None:
        self._start(self._send_unasked(session, playback))

    async def _send_unasked(self, session: Session, playback: Playback) -> None:
        claim = Claim(session, replay_ask(session.holder, playback), playback)
        self._claims.settle(claim, await self._claims.granted(claim))
        await self._play(session, playback)

    def stop(self, session: Session, number: int) -> None:
        """The client does not want it any more."""
        for key, playback in tuple(session.playbacks.items()):
            if playback.number == number:
                del session.playbacks[key]
                playback.go_on()

    def tick(self) -> None:
        """Now and then, after signs of life: see whether what had to wait can go on."""
        if not self._greeted.is_set():
            self._started = asyncio.get_running_loop().time()
            self._greeted.set()
        now = self._setting.now()
        self._catch_up()
        self.paces = {key: each for key, each in self.paces.items() if each.matters(now)}
        for session in self._broker.sessions.values():
            for playback in session.playbacks.values():
                playback.go_on()
            if session.played:
                kept = {each.subscription for each in session.send_window}
                session.played = [each for each in session.played if each in kept]
                session.forget_past()

    async def _play(self, session: Session, playback: Playback) -> None:
        missing: list[str] = []
        await self._greeted.wait()
        await asyncio.sleep(self._started + SETTLE_SECONDS - asyncio.get_running_loop().time())
        while not playback.granted and not playback.refused and self._stands(session, playback):
            playback.news.clear()  # nobody has answered yet, or not to what was asked anew meanwhile
            await playback.news.wait()
        if playback.meets_present:
            await self._broker.interest.settled()
        sources = self._sources(playback)
        while await self._play_all(session, playback, sources, missing):
            waiting = playback.joined.later if playback.joined is not None else None
            if not isinstance(waiting, Waiting) or not waiting.overflowed or playback.refused:
                unkept = tuple(dict.fromkeys(each.broker for each in sources if not each.keeps))
                if playback.owed:
                    missing += [f"`{name}` has no history" for name in unkept]
                self._end(session, playback, missing, unkept)
                return
            assert playback.joined is not None
            playback.joined.later = Waiting()
            missing += [
                f"`{each.broker}` has no history, and more came than could wait"
                for each in sources
                if not each.keeps
            ]
            sources = [Source(each.broker, each.type, each.near, beyond=each.mark or 0) for each in sources]

    def _sources(self, playback: Playback) -> list[Source]:
        """This broker, and all others that are trusted with the type, each for what was published there."""
        here, presence = self._setting.name, self._broker.presence
        return [
            Source(name, type_, name == here)
            for type_ in sorted(playback.granted)
            for name in sorted(
                {
                    here,
                    *self._keepers(
                        name for name, (key, *_) in presence.met.items() if presence.trusts(key, type_)
                    ),
                }
            )
        ]

    def _keepers(self, names: Iterable[str]) -> Iterator[str]:
        """Those to be asked: of brokers that share a history one, which is there if any is; none if it is ours."""
        presence, asked = self._broker.presence, {self._setting.history}
        for name in sorted(names, key=lambda name: (name not in presence.peers, name)):
            _, _, history = presence.met[name]
            if not history or history not in asked:
                asked.add(history)
                yield name

    async def _play_all(
        self, session: Session, playback: Playback, sources: list[Source], missing: list[str]
    ) -> bool:
        """Hand on everything; false if nobody wants it any more."""
        merge = Merge(sources)
        while self._stands(session, playback):
            playback.news.clear()
            if playback.refused or merge.ended:
                return True
            for source in merge.hungry():
                source.asking = True
                self._start(self._fetch(playback, source, missing))
            now = self._setting.now()
            if taken := merge.take(min(CHUNK, self._room(session, playback, now))):
                rates, last = playback.rates, session.send_window.last
                self.rules.announce(session, playback)
                wanted = playback.wanted(taken, now)
                session.send_window.put(*[Item(playback, event, raw) for event, raw in wanted])
                self._broker.flush(session)
                if playback.tense is Tense.PAST:  # what rules send starts nothing, or they would never end
                    self._broker.hear_past(event for event, _ in wanted)
                if rates:
                    _, sent = session.send_window.unacknowledged(last)
                    count = sum(each.subscription is playback and not each.part for each in sent)
                    for rule in rates:
                        self._pace(session, rule).send(count, now)
                await asyncio.sleep(0)
            else:
                await playback.news.wait()
        return False

    def _stands(self, session: Session, playback: Playback) -> bool:
        there = self._broker.sessions.get(session.token) is session
        return there and session.playbacks.get(playback.key) is playback

    def _pace(self, session: Session, rule: str) -> Pace:
        """What one client was sent under one rule lately, in whatever session, of the rule's type and its sub-types."""
        return self.paces.setdefault((session.holder.credential.name, rule), Pace())

    def _room(self, session: Session, playback: Playback, now: float) -> int:
        """How many events can be sent now: none while nobody knows whether they may be."""
        if self._broker.holds(playback.granted) or not playback.granted:
            return 0
        if not all(map(self._broker.presence.within_reach, playback.granted)):
            return 0
        number = playback.number
        credit = WINDOW - session.past_sent[number] + session.past_read.get(number, 0)
        room = max(0, min(session.send_window.room, credit))
        for rule, rate in playback.rates.items():
            pace = self._pace(session, rule)
            room = min(room, pace.room(rate, now))
            if not room:
                playback.go_on_after(pace.wait(rate, now))
        return room

    async def _fetch(self, playback: Playback, source: Source, missing: list[str]) -> None:
        try:
            found, events = await self._pages.ask(source.broker, self._wanted(playback, source))
        except PastUnknown as error:
            missing.append(str(error))
            source.ended = True
        else:
            if found.damaged:
                missing.append(f"`{source.broker}` has {found.damaged} events that do not open")
            source.coming = self._read(events, source, missing)
            source.after, source.mark, source.ended = found.after, found.mark, found.after is None
            source.keeps = found.keeps
        finally:
            source.asking = False
            playback.go_on()

    def _read(
        self, events: Iterable[Sequence[Encoded]], source: Source, missing: list[str]
    ) -> Iterator[Sequence[Encoded]]:
        """The events of a page. Those from here are read bit by bit, so what is wrong with one shows late."""
        try:
            yield from events
        except AuthFabricError as error:
            missing.append(f"`{source.broker}` has an event that cannot be read: {error}")
            source.ended = True

    def _wanted(self, playback: Playback, source: Source) -> PageWanted:
        """The question for the next page, by what is granted now."""
        query, enforcement = playback.query, playback.granted.get(source.type)
        asked = playback.asked.get(source.type)
        if enforcement is not None and asked is not None:
            asked = conjunction(asked, enforcement.restriction.pushed)
        return PageWanted(
            b"",
            source.type,
            asked,
            (),
            query.start,
            query.end,
            query.during,
            query.not_during,
            source.after,
            source.beyond,
            source.mark,
        )

    def _end(self, session: Session, playback: Playback, missing: list[str], unkept: tuple[str, ...]) -> None:
        """Say that this was all, and let the present follow."""
        del session.playbacks[playback.key]
        playback.go_on()  # which ends its timer
        session.played.append(playback)
        word = Ended(playback.refused, tuple(dict.fromkeys(missing)), playback.ticket, unkept)
        session.send_window.put(Item(playback, None, msgspec.Raw(encode(word))))
        if playback.joined is not None:
            waiting, playback.joined.later = playback.joined.later, None
            for item in cast(Waiting, waiting).items:
                session.send_window.put(cast(Item, item))
        self._broker.flush(session)

    def _start(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """For the length of the block."""
        try:
            yield
        finally:
            for task in tuple(self._tasks):
                task.cancel()
