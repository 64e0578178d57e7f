"""The objects of a type to which a subject may do an action: a predicate over each object, for a while.

Invariant: under the release it names, it holds of an object exactly if asking about that object would allow it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import time
from typing import TYPE_CHECKING, Any

import msgspec

from authz.errors import AuthFabricError
from authz.predicate import Predicate, comparisons, compile_predicate
from authz.predicate.terms import AnyComparison
from authz.request import Entity, Request, is_relative

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement


class ScopeRefused(AuthFabricError):
    """What may be listed cannot be said as a predicate, or not in SQL: `problem` says what, `place` where it is."""

    def __init__(self, problem: str, place: str = "") -> None:
        super().__init__(f"{place}: {problem}" if place else problem)
        self.problem = problem
        self.place = place


class ScopeUnavailable(AuthFabricError):
    """A PDP answered, and could not make a scope now: `problem` says why. The policies are not at fault."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class ScopeExpired(AuthFabricError):
    """A scope that is used after its time: ask for another one."""

    def __init__(self, until: float) -> None:
        super().__init__(f"the scope held until {until:.0f} (Unix time): ask for another one")
        self.until = until


class ScopePart(msgspec.Struct, frozen=True, array_like=True):
    """What one policy contributes, and where it stands."""

    place: str
    predicate: Predicate


class Scope(msgspec.Struct, frozen=True, array_like=True):
    """Which objects below `under` are allowed. `str` of it is for people."""

    under: str
    """How the names of the objects begin, such as `/documents/`."""
    predicate: Predicate
    epoch: int
    """The release for which it holds."""
    until: float
    """Unix time after which it must not be used."""
    parts: tuple[ScopePart, ...] = ()
    """What it was made from."""

    def __str__(self) -> str:
        return str(self.predicate)

    def filter(self) -> Callable[[Entity], bool]:
        """A function that says whether an object is allowed. Raises ScopeExpired."""
        self.require_current()
        holds, anyone = compile_predicate(self.predicate), Entity("any")
        return lambda thing: (
            thing.id.startswith(self.under)
            and not is_relative(thing.id)
            and holds(Request(anyone, thing, anyone))
        )

    def where(self, columns: Mapping[str, Any], dialect: str) -> ColumnElement[bool]:
        """The same as a SQLAlchemy condition, for `postgresql` or `sqlite`: `select(Document).where(scope.where(...))`.

        `columns` are by the name of the attribute: `id` is the rest of an object's name after `under`, `owner` the
        attribute `owner`, and None an attribute that no object has. Raises ScopeRefused, naming the policy and what
        of it cannot be said; and ScopeExpired.
        """
        from authz.scope.sql import to_sql

        self.require_current()
        return to_sql(self, columns, dialect)

    def require_current(self) -> None:
        """Raises ScopeExpired."""
        if time() >= self.until:
            raise ScopeExpired(self.until)

    def place_of(self, test: AnyComparison) -> str:
        """The policy that a comparison comes from."""
        return next((each.place for each in self.parts if test in comparisons(each.predicate)), "")
