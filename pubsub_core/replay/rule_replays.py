"""What rules have sent of the past: begun when an event says so, and gone on with in a client's next session.

Invariant: a client is told of a replay, by its ticket, before the first event of it, and whenever events of another one
come in between; so it knows of each how far it has come. Until it was told, the replay is owed to it: one for which
there is no room yet is begun when there is, and one whose session was lost goes on in the next.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace

import msgspec

from pubsub_core.broker import Broker
from pubsub_core.delivery import Due, Item, Playback, Session, Subscription
from pubsub_core.events import encode
from pubsub_core.history import Debt, Owed, Owing
from pubsub_core.messages import Ended, Sent, Tense, Unfinished
from pubsub_core.replay.limits import MOST_OWED, has_room
from pubsub_core.replay.ticket import LASTS_SECONDS, Tickets

_NO_RULE = "no rule sends it now"


class RuleSending:
    """Replays that rules start for the clients of one broker."""

    def __init__(self, broker: Broker, play: Callable[[Session, Playback], None]) -> None:
        """`play` sends what is among a session's playbacks."""
        self._broker, self._setting = broker, broker.setting
        self._play = play
        self._tickets = Tickets(broker.setting.identity)
        self.owing = Owing()

    def begin(self, due: Due) -> None:
        """A rule has past events sent."""
        session, now = self._broker.sessions.get(due.subscription.session), self._setting.now()
        if session is None:
            return
        holder, number = str(session.key), due.subscription.number
        if self.owing.is_known(holder, number, due.rule, due.cause):
            return
        ticket = self._tickets.issue(session.key, due, now)
        if sum(each.debt.holder == holder for each in self.owing) >= MOST_OWED:
            problem = (
                f"`{due.rule}` sends no more: {MOST_OWED} replays wait for this client, the most that may"
            )
            self._tell(session, due.subscription, Ended(problem, ticket=ticket))
            return
        self.owing.owe(Debt(holder, number, ticket, now + LASTS_SECONDS, due.rule, due.cause), session.token)
        self._send(session, due, ticket)

    def resume(self, session: Session, subscription: Subscription, unfinished: Iterable[Unfinished]) -> None:
        """Go on with what rules were sending for a subscription in an earlier session, if they still would."""
        until = self._setting.now() + LASTS_SECONDS
        for each in unfinished:
            if self.owing.find(each.ticket) is None:
                self.owing.owe(Debt(str(session.key), subscription.number, each.ticket, until), "")
            self.owing.go_on(each.ticket, each.start)
        for owed in self._lost(session, subscription):
            owed.session, owed.word = session.token, None
            self._pay(session, subscription, owed)

    def tick(self) -> None:
        """Now and then: begin what had to wait, and forget what clients know of."""
        broker, now = self._broker, self._setting.now()
        by_session = defaultdict[str, list[Owed]](list)
        for owed in self.owing:
            if now >= owed.debt.until:
                self.owing.forget(owed.debt.ticket)
            else:
                by_session[owed.session].append(owed)
        for token, all_owed in by_session.items():
            if (session := broker.sessions.get(token)) is not None:
                self._review(session, all_owed)

    def announce(self, session: Session, playback: Playback) -> None:
        """Say of which replay the next events are, if a rule has started it."""
        if playback.ticket and session.sending.get(playback.number) is not playback:
            session.sending[playback.number] = playback
            word = self._say(session, playback, Sent(playback.ticket))
            owed = self.owing.find(playback.ticket)
            if owed is not None and owed.word is None:
                owed.word = word

    def _lost(self, session: Session, subscription: Subscription) -> list[Owed]:
        """What a client is owed for a subscription since a session that is no more."""
        name = str(session.key), subscription.number
        return [
            each
            for each in self.owing
            if (each.debt.holder, each.debt.number) == name and each.session not in self._broker.sessions
        ]

    def _review(self, session: Session, all_owed: Iterable[Owed]) -> None:
        unread = set(map(id, session.send_window))
        for owed in all_owed:
            subscription = session.subscriptions.get(owed.debt.number)
            if subscription is None or (owed.word is not None and id(owed.word) not in unread):
                self.owing.forget(owed.debt.ticket)
            elif owed.word is None and has_room(session):
                self._pay(session, subscription, owed)

    def _pay(self, session: Session, subscription: Subscription, owed: Owed) -> None:
        """Begin what is owed, or say that it is not sent any more."""
        ticket = owed.debt.ticket
        if not self._go_on(session, subscription, ticket, owed.start):
            self.owing.forget(ticket)
            self._tell(session, subscription, Ended(_NO_RULE, ticket=ticket))

    def _go_on(
        self, session: Session, subscription: Subscription, ticket: bytes, start: float | None
    ) -> bool:
        """Send what a ticket says, from then on, as far as a rule would send it now; whether one would."""
        found = self._tickets.read(ticket, session.key, subscription, self._setting.now())
        due = self._broker.triggers.again(subscription, *found) if found is not None else None
        if due is None:
            return False
        starts = [at for at in (due.query.start, start) if at is not None]
        self._send(session, replace(due, query=replace(due.query, start=max(starts, default=None))), ticket)
        return True

    def _send(self, session: Session, due: Due, ticket: bytes) -> None:
        """Begin a replay, if there is room for one."""
        if not has_room(session):
            return
        playback = _playback(due.subscription)
        playback.query, playback.narrow, playback.test = due.query, due.narrow, due.test
        playback.ticket = ticket
        session.playbacks[playback.key] = playback
        self.announce(session, playback)
        self._broker.flush(session)
        self._play(session, playback)

    def _tell(self, session: Session, subscription: Subscription, word: Ended) -> None:
        self._say(session, _playback(subscription), word)
        self._broker.flush(session)

    def _say(self, session: Session, playback: Playback, word: Ended | Sent) -> Item:
        item = Item(playback, None, msgspec.Raw(encode(word)))
        session.send_window.put(item)
        return item


def _playback(asked: Subscription) -> Playback:
    return Playback(asked.session, asked.number, asked.type, asked.filter, tense=Tense.AGAIN)
