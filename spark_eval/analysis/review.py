"""An access review: who can do what, what of it is used, and who can do too much at once."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from pdp.documents import Document
from spark_eval.analysis.census import ALLOWED, ASKING, USED, Counts, Log
from spark_eval.columns import Codes, Outcomes
from spark_eval.evaluation import BLOCK, Board, Decisions, Turned, Words, bits_of

MOST = 20
"""How many of each are listed."""


class Duty(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Some permissions, by patterns for object and action."""

    object: str = "*"
    action: str = "*"

    def covers(self, object_: str, action: str) -> bool:
        return fnmatch.fnmatchcase(object_, self.object) and fnmatch.fnmatchcase(action, self.action)

    def __str__(self) -> str:
        return f"{self.action} {self.object}"


class Separation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Duties that nobody may have at once: of anything, or of one and the same object."""

    name: str
    duties: tuple[Duty, ...]
    same_object: bool = False


def read_separations(text: str, source: str = "") -> tuple[Separation, ...]:
    """The rules for the separation of duties in a YAML text. Raises InvalidSyntax."""
    document = Document.parse(text, source)
    found = document.read(tuple[Separation, ...])
    for number, each in enumerate(found):
        if len(each.duties) < 2:
            raise document.error((0, number), f"`{each.name}` separates nothing: give at least two duties")
    return found


class Access(msgspec.Struct, frozen=True):
    """How much somebody can do, or how many can do something."""

    name: str
    allowed: int
    asking: int = 0
    """What depends on the context besides."""
    used: int | None = None
    """Of what is allowed, how much the log has seen used; None without a log."""

    @property
    def unused(self) -> int | None:
        return None if self.used is None else self.allowed - self.used


class RoleAccess(msgspec.Struct, frozen=True):
    """What a role grants by itself, and what of it those who have it have used."""

    role: str
    holders: int
    granted: int
    used: int | None = None
    unused: tuple[str, ...] = ()
    """Examples of what nobody who has it has used."""


class PolicyAccess(msgspec.Struct, frozen=True):
    """What a policy grants, in pairs of subject and permission, and how often that was used."""

    policy: str
    granted: int
    used: int | None = None


class Conflict(msgspec.Struct, frozen=True):
    """Who has duties that should be separate."""

    name: str
    subjects: int
    """Subjects who have all the duties, whatever the context."""
    examples: tuple[str, ...] = ()
    possible: int = 0
    """Subjects besides, who have them all in some context, or may: that is for the PDP to say."""
    possible_examples: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether nobody has the duties at once, in any context."""
        return not self.subjects and not self.possible


class Review(msgspec.Struct, frozen=True):
    """The whole of it."""

    decisions: int
    allowed: int
    asking: int
    subjects: tuple[Access, ...]
    """Those who can do most."""
    permissions: tuple[Access, ...]
    """Those that most can do."""
    idle: int
    """Subjects who can do nothing."""
    unused: tuple[Access, ...] = ()
    """Permissions that most can do and nobody has used."""
    roles: tuple[RoleAccess, ...] = ()
    policies: tuple[PolicyAccess, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    used: int | None = None
    """How many different decisions that allow were seen in the log."""
    strangers: int = 0
    """How many different requests of the log are about nobody and nothing that is known here."""
    warnings: tuple[str, ...] = ()
    """What is probably a mistake in what was asked."""


@dataclass(frozen=True, slots=True)
class Reviewed:
    """Everything a review is made of."""

    decisions: Decisions
    subjects: Sequence[str]
    permissions: Sequence[tuple[str, str]]
    """Object and action of each."""
    members: Codes
    """The class of each permission."""
    log: Log | None = None

    def summary(self, counts: Counts) -> Review:
        """The review without roles and conflicts, from what was counted."""
        has_log = self.log is not None
        used = counts.subjects[USED]
        by_permission = counts.classes[:, self.members]
        return Review(
            len(self.subjects) * len(self.permissions),
            int(counts.subjects[ALLOWED].sum()),
            int(counts.subjects[ASKING].sum()),
            tuple(
                Access(
                    self.subjects[row], *_numbers(counts.subjects, row), int(used[row]) if has_log else None
                )
                for row in _most(counts.subjects[ALLOWED])
            ),
            self._permissions(by_permission, by_permission[ALLOWED]),
            int((counts.subjects[ALLOWED] + counts.subjects[ASKING] == 0).sum()),
            unused=self._unused(by_permission),
            policies=self._policies(counts),
            used=int(used.sum()) if has_log else None,
            strangers=self.log.strangers if self.log is not None else 0,
        )

    def _permissions(self, counts: Codes, ranks: Codes) -> tuple[Access, ...]:
        """Those with the highest ranks."""
        used = self._users()
        return tuple(
            Access(self._permission(row), *_numbers(counts, row), None if used is None else int(used[row]))
            for row in _most(ranks)
        )

    def _users(self) -> Codes | None:
        """For each permission, how many different subjects have used it."""
        if self.log is None:
            return None
        return np.bincount(self.log.permissions, minlength=len(self.permissions))

    def _unused(self, counts: Codes) -> tuple[Access, ...]:
        used = self._users()
        if used is None:
            return ()
        return self._permissions(counts, np.where(used == 0, counts[ALLOWED], 0))

    def _permission(self, row: int) -> str:
        object_, action = self.permissions[row]
        return f"{action} {object_}"

    def _policies(self, counts: Counts) -> tuple[PolicyAccess, ...]:
        """Those that grant something; with a log, the least used first."""
        totals: dict[str, Codes] = {}
        for number, bit in enumerate(self.decisions.plan.bits):
            for policy in bit.policies:
                totals[policy] = totals.get(policy, np.zeros(3, np.int64)) + counts.bits[:, number]
        found = [
            PolicyAccess(policy, int(each[ALLOWED]), int(each[USED]) if self.log is not None else None)
            for policy, each in totals.items()
            if each[ALLOWED]
        ]
        return tuple(
            sorted(found, key=lambda each: ((each.used or 0) / each.granted, -each.granted, each.policy))
        )

    def roles(self, alone: Turned, holders: dict[str, Words]) -> tuple[RoleAccess, ...]:
        """What each role grants: `alone` are subjects with nothing else, in the order of the holders."""
        board = Board(self.decisions.plan, alone, self.decisions.classes)
        granted = np.array([bits_of(board.ruling(row).allowed) for row in range(self.decisions.classes.rows)])
        found = [
            self._role(role, words, granted[self.members, number].astype(bool))
            for number, (role, words) in enumerate(holders.items())
        ]
        return tuple(sorted(found, key=lambda each: (-(each.granted - (each.used or 0)), each.role)))

    def _role(self, role: str, holders: Words, granted: Outcomes) -> RoleAccess:
        held = bits_of(holders)
        if self.log is None:
            return RoleAccess(role, int(held.sum()), int(granted.sum()))
        used = np.zeros(len(granted), np.bool_)
        used[self.log.permissions[held[self.log.subjects] > 0]] = True
        unused = [self._permission(row) for row in np.flatnonzero(granted & ~used)[:3].tolist()]
        return RoleAccess(
            role, int(held.sum()), int(granted.sum()), int((granted & used).sum()), tuple(unused)
        )

    def conflicts(self, separations: Sequence[Separation]) -> tuple[Conflict, ...]:
        """Who has duties that should be separate."""
        found = []
        for each in separations:
            blocks = [self._in_conflict(each, start) for start in range(0, len(self.subjects), BLOCK)]
            certain, possible = (np.concatenate(rows) for rows in zip(*blocks, strict=True))
            found.append(
                Conflict(each.name, len(certain), self._names(certain), len(possible), self._names(possible))
            )
        return tuple(found)

    def uncovered(self, separations: Sequence[Separation]) -> tuple[str, ...]:
        """Duties that no permission is: a separation that has one holds, whoever may do what."""
        return tuple(
            f"no permission is `{duty}`, which the separation `{each.name}` names"
            for each in separations
            for duty in each.duties
            if not any(duty.covers(*permission) for permission in self.permissions)
        )

    def _names(self, rows: Codes) -> tuple[str, ...]:
        return tuple(self.subjects[row] for row in rows[:MOST])

    def _in_conflict(self, separation: Separation, start: int) -> tuple[Codes, Codes]:
        """The rows of those subjects of a block who have all the duties, and of those who may, by the context."""
        groups = self._duties(separation)
        needed = sorted({number for group in groups for duty in group for number in duty})
        places = {number: place for place, number in enumerate(needed)}
        block = self.decisions.subjects.block(start, min(start + BLOCK, len(self.subjects)))
        board = Board(self.decisions.plan, block, self.decisions.classes.take(np.array(needed, np.int64)))
        rulings = [board.ruling(place) for place in range(len(needed))]
        nobody = np.zeros(block.words.shape[1], np.uint64)

        def with_all(held: Sequence[Words]) -> Words:
            found = nobody.copy()
            for group in groups:
                everyone = ~nobody
                for duty in group:
                    everyone &= np.bitwise_or.reduce([nobody, *(held[places[number]] for number in duty)])
                found |= everyone
            return found

        certain = with_all([each.allowed for each in rulings])
        possible = with_all([each.allowed | each.asking for each in rulings]) & ~certain
        return np.flatnonzero(bits_of(certain)) + start, np.flatnonzero(bits_of(possible)) + start

    def _duties(self, separation: Separation) -> list[list[set[int]]]:
        """For all objects together, or for each by itself: the classes that each duty needs one of."""
        groups: dict[str, list[set[int]]] = {}
        for (object_, action), number in zip(self.permissions, self.members.tolist(), strict=True):
            for place, duty in enumerate(separation.duties):
                if duty.covers(object_, action):
                    group = object_ if separation.same_object else ""
                    groups.setdefault(group, [set() for _ in separation.duties])[place].add(number)
        return [group for group in groups.values() if all(group)]


def _numbers(counts: Codes, row: int) -> tuple[int, int]:
    return int(counts[ALLOWED, row]), int(counts[ASKING, row])


def _most(counts: Codes) -> list[int]:
    rows: list[int] = np.argsort(-counts, kind="stable")[:MOST].tolist()
    return [row for row in rows if counts[row]]
