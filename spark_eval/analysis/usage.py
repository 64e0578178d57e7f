"""What a log of decisions says of how policies are used: by whom, what, by which policies, and what stands out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as f

from spark_eval.reports import Part, Plot, Report, Section, Table, bars

MOST = 20
"""How many of each are listed."""
PERMISSION = "concat(action, ' ', object)"


class Use(msgspec.Struct, frozen=True):
    """How often somebody asked, or something was asked for."""

    name: str
    allowed: int
    refused: int
    others: int
    """Different permissions that a subject asked for, or different subjects that asked for a permission."""
    only: str = ""
    """The one subject that asked for a permission, if it was one alone."""


class PolicyUse(msgspec.Struct, frozen=True):
    """How many decisions a policy determined."""

    policy: str
    allowed: int
    refused: int


class Usage(msgspec.Struct, frozen=True):
    """The whole of it."""

    decisions: int
    allowed: int
    refused: int
    undecided: int
    """Refusals because no PDP could decide: nobody answered, or an attribute could not be had."""
    subjects: tuple[Use, ...]
    """Those who asked most."""
    permissions: tuple[Use, ...]
    """What was asked for most."""
    refusals: tuple[Use, ...]
    """Subjects who were refused most: they lack something, or try what is not theirs."""
    alone: tuple[Use, ...]
    """What is allowed and one subject alone uses: a right that may as well be that one's, or nobody's."""
    policies: tuple[PolicyUse, ...]
    """Those that determined something, the least used first."""
    idle: tuple[str, ...] = ()
    """Policies that determined nothing: they are not needed, or never reached."""


def usage(decisions: DataFrame, policies: Iterable[str] = ()) -> Usage:
    """What the log says; `policies` are all there are, by name. Everything is counted on Spark."""
    totals = decisions.agg(*_counts(), f.expr(f"count_if({UNDECIDED})").alias("undecided")).first()
    assert totals is not None
    by_subject = decisions.groupBy(f.col("subject").alias("name")).agg(
        *_counts(), f.countDistinct(f.expr(PERMISSION)).alias("others")
    )
    by_permission = decisions.groupBy(f.expr(PERMISSION).alias("name")).agg(
        *_counts(), f.countDistinct("subject").alias("others"), f.min("subject").alias("only")
    )
    by_policy = decisions.select(f.explode("policies").alias("name"), "effect", "reason").groupBy("name")
    used = [PolicyUse(each.name, each.allowed, each.refused) for each in by_policy.agg(*_counts()).collect()]
    asked = f.col("allowed") + f.col("refused")
    known = {each.policy for each in used}
    return Usage(
        totals.allowed + totals.refused,
        totals.allowed,
        totals.refused,
        totals.undecided,
        tuple(_uses(by_subject, asked)),
        tuple(_uses(by_permission, asked)),
        tuple(_uses(by_subject.where("refused > 0"), f.col("refused"))),
        tuple(_uses(by_permission.where("others = 1 and allowed > 0"), f.col("allowed"))),
        tuple(sorted(used, key=lambda each: (each.allowed + each.refused, each.policy))),
        tuple(sorted({*policies} - known)),
    )


UNDECIDED = "effect = 'deny' and reason not in ('policy', 'no-policy')"


def _counts() -> list[Column]:
    return [f.expr(f"count_if(effect = '{effect}')").alias(name) for name, effect in _EFFECTS.items()]


_EFFECTS = {"allowed": "allow", "refused": "deny"}


def _uses(frame: DataFrame, rank: Column) -> Iterator[Use]:
    for row in frame.orderBy(rank.desc(), "name").limit(MOST).collect():
        yield Use(row.name, row.allowed, row.refused, row.others, _only(row))


def _only(row: Row) -> str:
    return str(row.only) if "only" in row and row.others == 1 else ""


def usage_report(found: Usage, about: str, command: str) -> Report:
    """The report of a log."""
    facts: list[tuple[str, object]] = [
        ("decisions", found.decisions),
        ("allowed", found.allowed),
        ("refused", found.refused),
        ("refused because nobody could decide", found.undecided),
        ("policies that decided nothing", len(found.idle)),
    ]
    lead = f"{found.allowed / max(1, found.decisions):.2%} of {found.decisions:,} decisions allowed."
    return Report("How policies are used", lead, command, list(_sections(found)), facts, f"About {about}.")


def _sections(found: Usage) -> Iterator[Section]:
    yield Section("Who was refused most", list(_who(found.refusals, "permissions asked for")))
    yield Section("Who asked most", list(_who(found.subjects, "permissions asked for")))
    yield Section("What was asked for most", list(_who(found.permissions, "subjects")))
    caption = "Allowed, and used by one subject alone: a right that others may have without need."
    rows = [[each.name, each.only, each.allowed] for each in found.alone]
    yield Section("What one alone uses", [caption, Table(["permission", "subject", "allowed"], rows)])
    deciding = [[each.policy, each.allowed, each.refused] for each in found.policies]
    yield Section(
        "Which policies decide",
        [
            Table(
                ["policy", "allowed", "refused"],
                deciding,
                "The least used first",
                folded=len(deciding) > MOST,
            )
        ],
    )
    if found.idle:
        idle = Table(["policy"], [[name] for name in found.idle], folded=len(found.idle) > MOST)
        yield Section("Which policies decide nothing", [idle])


def _who(several: tuple[Use, ...], others: str) -> Iterator[Part]:
    if not several:
        yield "Nobody and nothing."
        return
    names = [each.name for each in several]
    left, right = [each.refused for each in several], [each.allowed for each in several]
    yield Plot(bars(names, left, right, "decisions", ("refused", "allowed")), "Refused, and allowed.")
    rows = [[each.name, each.allowed, each.refused, each.others] for each in several]
    yield Table(["name", "allowed", "refused", others], rows)
