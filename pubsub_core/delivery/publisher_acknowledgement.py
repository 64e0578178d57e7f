"""Acknowledging bundles: at once, or when the local subscribers that they are for are no longer behind."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from functools import partial

from pubsub_core.delivery.backpressure import Backpressure
from pubsub_core.delivery.session import Session, Setting
from pubsub_core.messages import Bundle, Taken

MAX_PARKED = 16
"""Maximum bundles that wait for the acknowledgement of an earlier one: the publisher's window."""


class Acknowledging:
    """Has publishers wait for subscribers of this broker."""

    def __init__(
        self,
        setting: Setting,
        sessions: Mapping[str, Session],
        publish: Callable[[Bundle, Callable[[Taken], None]], None],
    ) -> None:
        """`publish` takes the bundles that came while an earlier one was not acknowledged."""
        self._setting = setting
        self._sessions = sessions
        self._publish = publish
        self._pressure = Backpressure()

    def waits(self, session: Session, bundle: Bundle, answer: Callable[[Taken], None]) -> bool:
        """Whether a bundle has to wait for an earlier one of its client, or is acknowledged later anyway."""
        if not session.unanswered:
            return False
        known = (each.number for each, _ in session.parked)
        if bundle.number not in (*session.unanswered, *known) and len(session.parked) < MAX_PARKED:
            session.parked.append((bundle, answer))
        return True

    def answer(
        self, session: Session, taken: Taken, answer: Callable[[Taken], None], behind: Collection[Hashable]
    ) -> None:
        """Acknowledge a bundle when none of its subscribers is behind. A publisher does not wait for itself."""
        behind = {each for each in behind if each != session.token and self._is_behind(each)}
        if not behind:
            answer(taken)
            return
        session.unanswered.add(taken.number)
        self._pressure.wait(behind, partial(self._acknowledge, session, taken, answer))

    def _acknowledge(self, session: Session, taken: Taken, answer: Callable[[Taken], None]) -> None:
        session.unanswered.discard(taken.number)
        answer(taken)
        while session.parked and not session.unanswered:
            self._publish(*session.parked.popleft())

    def _is_behind(self, who: Hashable) -> bool:
        """Whether a client, by its session's token, is still behind."""
        session = self._sessions.get(who) if isinstance(who, str) else None
        return session is not None and session.lag.behind

    @property
    def behind(self) -> bool:
        """Whether any subscriber here is behind, and waited for."""
        return any(session.lag.behind for session in self._sessions.values())

    def look(self, session: Session) -> None:
        """See whether publishers are to wait for a client."""
        before, send_window = session.lag.behind, session.send_window
        behind = session.lag.look(send_window.waiting, send_window.received, self._setting.now())
        if before and not behind:
            self._pressure.clear(session.token)

    def end(self, session: Session) -> None:
        """A client is gone: nobody waits for it."""
        if session.lag.behind:
            session.lag.behind = False
            self._pressure.clear(session.token)
