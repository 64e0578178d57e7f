"""What rules have sent of the past: begun when an event says so, and gone on with in a client's next session.

Invariant: a client is told of a replay, by its ticket, before the first event of it, and whenever events of another one
come in between; so it knows of each how far it has come.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace

import msgspec

from pubsub_core.broker import Broker
from pubsub_core.event import encode
from pubsub_core.messages import Ended, Sent, Tense, Unfinished
from pubsub_core.playback import Playback
from pubsub_core.replay_limits import MOST_DUE, has_room
from pubsub_core.session import Item, Session
from pubsub_core.switchboard import Subscription
from pubsub_core.ticket import Tickets
from pubsub_core.triggers import Due

_log = logging.getLogger("authfabric.history")


class RuleSending:
    """Replays that rules start for the clients of one broker."""

    def __init__(self, broker: Broker, play: Callable[[Session, Playback], None]) -> None:
        """`play` sends what is among a session's playbacks."""
        self._broker = broker
        self._play = play
        self._tickets = Tickets(broker.setting.identity)

    def begin(self, due: Due) -> None:
        """A rule has past events sent."""
        session = self._broker.sessions.get(due.subscription.session)
        if session is not None:
            self._send(session, due, self._tickets.issue(session.key, due, self._broker.setting.now()))

    def resume(self, session: Session, subscription: Subscription, unfinished: Iterable[Unfinished]) -> None:
        """Go on with what rules were sending for a subscription in an earlier session, if they still would."""
        now = self._broker.setting.now()
        for each in unfinished:
            found = self._tickets.read(each.ticket, session.key, subscription, now)
            due = self._broker.triggers.again(subscription, *found) if found is not None else None
            if due is None:
                self._say(session, _playback(subscription), Ended("no rule sends it now", ticket=each.ticket))
                continue
            starts = [at for at in (due.query.start, each.start) if at is not None]
            query = replace(due.query, start=max(starts, default=None))
            self._send(session, replace(due, query=query), each.ticket)
        self._broker.flush(session)

    def announce(self, session: Session, playback: Playback) -> None:
        """Say of which replay the next events are, if a rule has started it."""
        if playback.ticket and session.sending.get(playback.number) is not playback:
            session.sending[playback.number] = playback
            self._say(session, playback, Sent(playback.ticket))

    def _send(self, session: Session, due: Due, ticket: bytes) -> None:
        if not has_room(session):
            name = session.holder.credential.name
            _log.warning("`%s` is sent no more by rules: %d of their replays are under way", name, MOST_DUE)
            return
        playback = _playback(due.subscription)
        playback.query, playback.narrow, playback.test = due.query, due.narrow, due.test
        playback.ticket = ticket
        session.playbacks[playback.key] = playback
        self.announce(session, playback)
        self._broker.flush(session)
        self._play(session, playback)

    def _say(self, session: Session, playback: Playback, word: Ended | Sent) -> None:
        session.outbox.put(Item(playback, None, msgspec.Raw(encode(word))))


def _playback(asked: Subscription) -> Playback:
    return Playback(asked.session, asked.number, asked.type, asked.filter, tense=Tense.AGAIN)
