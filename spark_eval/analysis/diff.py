"""A policy diff: which decisions change, how many, for whom, about what and because of which policies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa

from spark_eval.analysis.compare import CHANGES, GAINED, LOST, Change, Comparison, Pair
from spark_eval.columns import Codes
from spark_eval.entities import Gathered
from spark_eval.evaluation import BLOCK, Joint, Tile, bits_of, turn

MOST = 20
"""How many examples of each group are listed."""


class Example(msgspec.Struct, frozen=True):
    """One decision that changes."""

    subject: str
    object: str
    action: str
    before: str
    after: str
    policies_before: tuple[str, ...] = ()
    policies_after: tuple[str, ...] = ()
    condition_before: str = ""
    """If it depends on the context: when it was allowed, and when it will be."""
    condition_after: str = ""


class Group(msgspec.Struct, frozen=True):
    """Decisions that change and have something in common."""

    name: str
    gained: int
    """From deny to allow."""
    lost: int
    """From allow to deny."""
    other: int
    """Those that depended on the context, or now do."""
    example: Example | None = None

    @property
    def total(self) -> int:
        return self.gained + self.lost + self.other


class Diff(msgspec.Struct, frozen=True):
    """Everything that changes."""

    decisions: int
    """How many were compared."""
    changes: dict[str, int]
    """How many of each kind: `deny to allow`, and so on."""
    subjects: int
    """How many subjects are affected."""
    permissions: int
    by_policy: tuple[Group, ...] = ()
    by_role: tuple[Group, ...] = ()
    by_prefix: tuple[Group, ...] = ()
    by_subject: tuple[Group, ...] = ()
    examples: tuple[Example, ...] = ()
    obliging: tuple[str, ...] = ()
    """Policies whose obligations differ, so that enforcers may have to do something else where the same is allowed."""
    warnings: tuple[str, ...] = ()
    """What is probably a mistake in what was asked."""

    @property
    def gained(self) -> int:
        return self.changes.get(label(GAINED), 0)

    @property
    def lost(self) -> int:
        return self.changes.get(label(LOST), 0)

    @property
    def total(self) -> int:
        return sum(self.changes.values())

    def any_of(self, kinds: Iterable[Change]) -> bool:
        """Whether anything changes in one of these ways."""
        return any(label(kind) in self.changes for kind in kinds)


def label(kind: Change) -> str:
    return f"{kind.before} to {kind.after}"


@dataclass(frozen=True, slots=True)
class People:
    """The names behind a comparison."""

    subjects: Sequence[str]
    permissions: Sequence[tuple[str, str]]
    """Object and action of each permission that may change."""
    classes: Codes
    """The class of each."""


def prepare(
    joint: Joint, subjects: Gathered, objects: Gathered, actions: Sequence[str]
) -> tuple[Comparison, People]:
    """What there is to compare: of the permissions only those that not the same bits decide about."""
    changed = joint.changed(objects.side)
    classes = objects.side.take(np.array(changed, np.int64)).classes(joint.plan)
    names = [(objects.names[row // len(actions)], actions[row % len(actions)]) for row in changed]
    turned = turn(subjects.side, len(joint.plan.bits))
    comparison = Comparison(joint, turned, classes.side, classes.sizes)
    return comparison, People(subjects.names, names, classes.members)


class Summary:
    """Makes a diff of what the tiles have counted."""

    def __init__(self, comparison: Comparison, people: People, tallies: pa.Table) -> None:
        self._comparison = comparison
        self._people = people
        self._rows = {what: _rows(tallies, what) for what in ("class", "subject", "bit")}
        self._members: dict[int, int] = {}
        for permission, number in enumerate(people.classes.tolist()):
            self._members.setdefault(number, permission)

    def diff(self, decisions: int) -> Diff:
        per_subject = self._per_subject()
        per_class = self._per_class()
        totals = per_subject.sum(axis=1)
        return Diff(
            decisions,
            {label(kind): int(total) for kind, total in zip(CHANGES, totals, strict=True) if total},
            int(np.any(per_subject, axis=0).sum()),
            int(np.any(per_class, axis=0)[self._people.classes].sum()),
            self._by_policy(),
            self._by_role(per_subject),
            self._by_prefix(per_class),
            self._by_subject(per_subject),
            tuple(self._examples()),
        )

    def _per_subject(self) -> Codes:
        """For each kind of change and each subject, how many decisions change."""
        found = np.zeros((len(CHANGES), len(self._people.subjects)), np.int64)
        for kind, first, _, data in self._rows["subject"]:
            counts = np.frombuffer(data, "<i8")[: found.shape[1] - first]
            found[kind, first : first + len(counts)] += counts
        return found

    def _per_class(self) -> Codes:
        """For each kind of change and each class, for how many subjects it changes."""
        found = np.zeros((len(CHANGES), self._comparison.classes.rows), np.int64)
        for kind, number, subjects, _ in self._rows["class"]:
            found[kind, number] += subjects
        return found

    def _by_policy(self) -> tuple[Group, ...]:
        bits = self._comparison.joint.plan.bits
        counts: dict[str, Codes] = {}
        examples: dict[str, Example] = {}
        for kind, bit, total, data in self._rows["bit"]:
            for policy in bits[bit].policies:
                counts.setdefault(policy, np.zeros(len(CHANGES), np.int64))[kind] += total
                if policy not in examples:
                    number, subject = np.frombuffer(data, "<i8").tolist()
                    examples[policy] = self._example(kind, number, subject)
        return largest(make_group(name, each, examples[name]) for name, each in counts.items())

    def _by_role(self, per_subject: Codes) -> tuple[Group, ...]:
        words, found = self._comparison.subjects.words, []
        for role, bit in self._comparison.joint.roles.items():
            held = bits_of(words[bit])[: per_subject.shape[1]]
            found.append(make_group(role, per_subject @ held.astype(np.int64)))
        return largest(found)

    def _by_prefix(self, per_class: Codes) -> tuple[Group, ...]:
        counts: dict[str, Codes] = {}
        for (name, _), number in zip(self._people.permissions, self._people.classes.tolist(), strict=True):
            total = counts.setdefault(prefix(name), np.zeros(len(CHANGES), np.int64))
            total += per_class[:, number]
        return largest(make_group(name, each) for name, each in counts.items())

    def _by_subject(self, per_subject: Codes) -> tuple[Group, ...]:
        totals = per_subject.sum(axis=0)
        most = np.argsort(-totals, kind="stable")[:MOST]
        return tuple(
            make_group(self._people.subjects[row], per_subject[:, row])
            for row in most.tolist()
            if totals[row]
        )

    def _examples(self) -> Iterable[Example]:
        """A few of each kind, of different classes."""
        shown = [0] * len(CHANGES)
        for kind, number, _, data in self._rows["class"]:
            if shown[kind] < MOST // 4:
                shown[kind] += 1
                yield self._example(kind, number, int(np.frombuffer(data, "<i8")[0]))

    def _example(self, kind: int, number: int, subject: int) -> Example:
        start = subject // BLOCK * BLOCK
        tile = Tile((start, min(start + BLOCK, self._comparison.subjects.count)), (number, number + 1))
        pair = Pair(self._comparison, tile)
        change = CHANGES[kind]
        policies = pair.reasons(0, subject - start)
        conditions = pair.conditions(0, subject - start)
        object_, action = self._people.permissions[self._members[number]]
        return Example(
            self._people.subjects[subject],
            object_,
            action,
            *change,
            *policies,
            *(str(each) if known == "ask" else "" for each, known in zip(conditions, change, strict=True)),
        )


def prefix(name: str) -> str:
    """What objects near each other have in common: up to two steps of the path to them, or the part before a colon."""
    if "/" not in name:
        return name.partition(":")[0] + ":" if ":" in name else name
    steps = name.split("/")
    kept = steps[:-1][: 2 if steps[0] else 3]
    return "/".join([*kept, "*"]) if any(kept) else name


def _rows(tallies: pa.Table, what: str) -> list[tuple[int, int, int, bytes]]:
    rows = tallies.filter(pa.compute.equal(tallies.column("what"), what)).sort_by(
        [("kind", "ascending"), ("key", "ascending")]
    )
    return list(
        zip(*(rows.column(name).to_pylist() for name in ("kind", "key", "count", "data")), strict=True)
    )


def make_group(name: str, counts: Codes, example: Example | None = None) -> Group:
    """A group from how many decisions of each kind change."""
    gained, lost, *others = counts.tolist()
    return Group(name, gained, lost, sum(others), example)


def largest(groups: Iterable[Group]) -> tuple[Group, ...]:
    """Those in which most changes, the most first."""
    some = (group for group in groups if group.total)
    return tuple(sorted(some, key=lambda group: (-group.total, group.name))[:MOST])
