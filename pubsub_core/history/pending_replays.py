"""What clients are owed: replays that rules have begun, until their clients know of them.

A rule that sends the past does so once, when something happens; whoever is not told then has lost it. So a ticket is
kept from the moment of the trigger until its client has read it, in the history too if there is one. Invariant: for one
trigger a rule owes a subscription one replay, however often the trigger comes; and what is owed is forgotten only when
its client has it, does not want it any more, or has not asked for it in a day.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import msgspec

MOST_CAUSES = 16_384
"""Maximum triggers remembered, so that one that comes again starts nothing."""


class Debt(msgspec.Struct, frozen=True, tag="owed"):
    """A client is to be sent what its ticket says."""

    holder: str
    """The client's key."""
    number: int
    """That of the client's subscription."""
    ticket: bytes
    until: float
    rule: str = ""
    cause: bytes = b""
    """The event that it is owed for."""


class Receipt(msgspec.Struct, frozen=True, tag="received"):
    """A ticket is not owed any more."""

    ticket: bytes


class DebtLog(Protocol):
    """Where this is kept over restarts."""

    def note(self, word: Debt | Receipt) -> None: ...

    def debts(self) -> Iterable[tuple[Debt, bool]]:
        """What was owed, and whether it is still."""
        ...


class _Cause(NamedTuple):
    holder: str
    number: int
    rule: str
    cause: bytes


@dataclass(slots=True, eq=False)
class Owed:
    """A debt, and how far it has come."""

    debt: Debt
    session: str = ""
    """The session in which it is to be sent, or was last."""
    word: object = None
    """What its client is being sent, by which it will know of it."""
    start: float | None = None
    """From when on it is missing; None: all of it."""


class Owing:
    """What one broker owes."""

    def __init__(self) -> None:
        self._owed: dict[bytes, Owed] = {}
        self._causes: dict[_Cause, None] = {}
        self._log: DebtLog | None = None

    def keep_in(self, log: DebtLog) -> None:
        """Take up what a log has, and add to it from now on."""
        self._log = log
        for debt, open_ in log.debts():
            self._remember(debt)
            if open_:
                self._owed[debt.ticket] = Owed(debt)

    def __iter__(self) -> Iterator[Owed]:
        return iter(tuple(self._owed.values()))

    def find(self, ticket: bytes) -> Owed | None:
        return self._owed.get(ticket)

    def is_known(self, holder: str, number: int, rule: str, cause: bytes) -> bool:
        """Whether a rule has begun to send this because of that before."""
        return _Cause(holder, number, rule, cause) in self._causes

    def owe(self, debt: Debt, session: str) -> Owed:
        self._remember(debt)
        owed = self._owed[debt.ticket] = Owed(debt, session)
        if self._log is not None:
            self._log.note(debt)
        return owed

    def go_on(self, ticket: bytes, start: float | None) -> None:
        """Its client has what is earlier, and waits for the rest."""
        owed = self._owed[ticket]
        owed.session, owed.start = "", start

    def forget(self, ticket: bytes) -> None:
        """It is not owed any more."""
        if self._owed.pop(ticket, None) is not None and self._log is not None:
            self._log.note(Receipt(ticket))

    def _remember(self, debt: Debt) -> None:
        self._causes[_Cause(debt.holder, debt.number, debt.rule, debt.cause)] = None
        if len(self._causes) > MOST_CAUSES:
            del self._causes[next(iter(self._causes))]
