"""Permission refusals of a server: remembered, logged once, and raised for whoever waits for an answer."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import Iterator
from typing import Any

from bus.errors import NotPermitted
from bus.wire import subjects

_FORBIDDEN = re.compile(r'permissions violation for (publish|subscription) to "([^"\s]+)', re.IGNORECASE)
_MOST = 64
"""Maximum subjects remembered as refused."""

_PARTS = (
    (
        (subjects.RELEASES, subjects.NEWEST, subjects.CONTENT, subjects.CONTEXT, f"{subjects.ROOT}.policy."),
        "install",
    ),
    ((subjects.AUDIT, subjects.AUDITED, subjects.AUDITED_UP_TO), "audit"),
    ((subjects.PARCELS, subjects.BROKERS, f"{subjects.ROOT}.past.", f"{subjects.ROOT}.mail."), "carry"),
    ((subjects.ROLES,), "provide"),
    ((subjects.ANNOUNCE,), "decide"),
    ((subjects.TYPES,), "define"),
    ((f"{subjects.ROOT}.",), "connect"),
)
"""Parts of subjects, each with the right that is needed there; the first that fits counts."""

_log = logging.getLogger("authfabric.bus")


def right_for(subject: str, *, listening: bool) -> str:
    """The right that a server asks of those who publish or listen on a subject; empty if its name does not tell.

    Subjects are in lower case, as the library gives servers' errors.
    """
    if listening and subject.startswith(f"{subjects.ROOT}.ask."):
        return "decide"
    return next((right for parts, right in _PARTS if any(part in subject for part in parts)), "")


class Unanswered:
    """Futures of those who wait, by the subject they asked on; in lower case, as the library gives servers' errors."""

    def __init__(self) -> None:
        self.refused: dict[str, str] = {}
        """The subjects that were refused, each with the right that is missing; empty if that is not known."""
        self._waiting: dict[str, set[asyncio.Future[Any]]] = {}

    @property
    def lacks(self) -> tuple[str, ...]:
        """The rights that servers have refused, by name."""
        return tuple(sorted(set(filter(None, self.refused.values()))))

    def forget(self) -> None:
        """The connection begins anew, perhaps with other rights."""
        self.refused.clear()

    @contextlib.contextmanager
    def waiting(self, subject: str, answer: asyncio.Future[Any]) -> Iterator[None]:
        """For the length of the block, the future fails if the server says that nobody may publish there."""
        several = self._waiting.setdefault(subject.lower(), set())
        several.add(answer)
        try:
            yield
        finally:
            several.discard(answer)
            if not several:
                self._waiting.pop(subject.lower(), None)

    def hear(self, error: str) -> None:
        """The server has reported an error."""
        if (found := _FORBIDDEN.search(error)) is None:
            return
        subject = found[2].lower()
        missing = NotPermitted(subject, right_for(subject, listening=found[1].lower() == "subscription"))
        for answer in self._waiting.get(subject, ()):
            if not answer.done():
                answer.set_exception(missing)
        if subject not in self.refused and len(self.refused) < _MOST:
            self.refused[subject] = missing.right
            _log.warning("%s", missing)
