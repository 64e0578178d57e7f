"""The report of a policy diff."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spark_eval.analysis.diff import Diff, Example, Group
from spark_eval.reports import Part, Plot, Report, Section, Table, bars

SIDES = ("lost", "gained")


@dataclass(frozen=True, slots=True)
class Told:
    """What was compared, in the words of whoever asked."""

    before: str
    after: str
    about: str
    """Over what: all entities, or requests of a log."""
    command: str


def diff_report(diff: Diff, told: Told) -> Report:
    """What changes, with a plot and a table for each way to look at it."""
    return Report(
        "What the policies change",
        _lead(diff, told),
        told.command,
        list(_sections(diff)),
        facts=(
            ("decisions compared", diff.decisions),
            ("gained: deny to allow", diff.gained),
            ("lost: allow to deny", diff.lost),
            ("with or by the context", diff.total - diff.gained - diff.lost),
            ("subjects affected", diff.subjects),
            ("policies whose obligations differ", len(diff.obliging)),
        ),
        notes=f"From `{told.before}` to `{told.after}`, over {told.about}.",
    )


def _lead(diff: Diff, told: Told) -> str:
    if not diff.total:
        what = "No decision" if diff.obliging else "Nothing"
        return f"{what} changes: {told.about} are decided alike by `{told.before}` and `{told.after}`."
    return (
        f"From `{told.before}` to `{told.after}`, {diff.total:,} of {diff.decisions:,} decisions change"
        f" ({diff.total / diff.decisions:.2%}): {diff.gained:,} gained and {diff.lost:,} lost. That concerns"
        f" {diff.permissions:,} permission{'s' * (diff.permissions != 1)}."
    )


def _sections(diff: Diff) -> Iterator[Section]:
    if diff.warnings:
        yield Section("Probably mistaken", list(diff.warnings))
    if not diff.total:
        return
    yield _section("Which policies bring it about", "policy", diff.by_policy, _POLICY)
    yield _section("Which roles are affected", "role", diff.by_role, _ROLE)
    yield _section("Which objects are affected", "objects", diff.by_prefix, _PREFIX)
    yield _section("Who is affected most", "subject", diff.by_subject, _SUBJECT)
    yield Section("Examples", [_examples(diff.examples), _kinds(diff)])


_POLICY = (
    "For each policy that only one side has, or has otherwise: the decisions that it pulls one way and that go this"
    " way. A decision counts for each policy that pulls at it."
)
_ROLE = "The decisions that change for subjects with each role. Who has several roles counts for each."
_PREFIX = "The decisions that change about objects, by the beginning of their names."
_SUBJECT = "The subjects about whom most decisions change."


def _section(title: str, noun: str, groups: Sequence[Group], caption: str) -> Section:
    if not groups:
        return Section(title, ["None."])
    drawn = bars(
        [each.name for each in groups],
        [each.lost for each in groups],
        [each.gained for each in groups],
        "decisions",
        SIDES,
    )
    parts: list[Part] = [Plot(drawn, caption)]
    columns = [noun, "gained", "lost", "with the context"]
    rows: list[list[object]] = [[each.name, each.gained, each.lost, each.other] for each in groups]
    if any(each.example for each in groups):
        columns.append("for example")
        for row, group in zip(rows, groups, strict=True):
            row.append(_words(group.example) if group.example else None)
    return Section(title, [*parts, Table(columns, rows)])


def _words(example: Example) -> str:
    return f"{example.subject} {example.action} {example.object}: {example.before} to {example.after}"


def _examples(examples: Sequence[Example]) -> Table:
    rows = [
        [
            each.subject,
            each.action,
            each.object,
            _side(each.before, each.policies_before, each.condition_before),
            _side(each.after, each.policies_after, each.condition_after),
        ]
        for each in examples
    ]
    return Table(["subject", "action", "object", "before", "after"], rows)


def _side(effect: str, policies: Sequence[str], condition: str) -> str:
    by = f" by {', '.join(policies)}" if policies else ""
    return f"{effect}{by}" + (f", allowed if {condition}" if condition else "")


def _kinds(diff: Diff) -> Table:
    return Table(
        ["change", "decisions"], [[kind, total] for kind, total in diff.changes.items()], "All kinds", True
    )
