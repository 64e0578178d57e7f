"""The report of an access review."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spark_eval.analysis.review import Access, Review
from spark_eval.reports import Part, Plot, Report, Section, Table, bars

SIDES = ("unused", "used")


def review_report(review: Review, about: str, command: str) -> Report:
    """Who can do what, and what should be looked at."""
    facts: list[tuple[str, object]] = [
        ("decisions", review.decisions),
        ("allowed", review.allowed),
        ("depend on the context", review.asking),
        ("subjects who can do nothing", review.idle),
    ]
    if review.used is not None:
        facts.append(("allowed and used", review.used))
    return Report(
        "Who can do what", _lead(review), command, list(_sections(review)), facts, f"About {about}."
    )


def _lead(review: Review) -> str:
    said = f"{review.allowed / review.decisions:.2%} of {review.decisions:,} decisions allow."
    if review.used is not None and review.allowed:
        said += f" {review.used / review.allowed:.2%} of what is allowed was used."
        if review.strangers:
            said += f" {review.strangers:,} different requests in the log are about nobody and nothing known here."
    if review.conflicts:
        violated = sum(each.subjects > 0 for each in review.conflicts)
        possible = sum(each.subjects == 0 and each.possible > 0 for each in review.conflicts)
        said += f" Separations of duties: {len(review.conflicts)}, violated: {violated}"
        said += f", violated in some contexts: {possible}." if possible else "."
    return said


def _sections(review: Review) -> Iterator[Section]:
    has_log = review.used is not None
    if review.warnings:
        yield Section("Probably mistaken", list(review.warnings))
    if review.conflicts:
        yield Section("Duties that should be separate", [_conflicts(review)])
    yield Section("What roles grant", list(_roles(review, has_log)))
    yield Section("What policies grant", list(_policies(review, has_log)))
    if has_log:
        caption = "Permissions that somebody has and nobody used, those first that most have."
        yield Section("What nobody uses", [caption, _access("permission", review.unused, has_log)])
    yield Section("Who can do most", list(_subjects(review, has_log)))
    yield Section("What most can do", [_access("permission", review.permissions, has_log)])


def _conflicts(review: Review) -> Table:
    rows = [
        [each.name, each.subjects, each.possible, ", ".join((*each.examples, *each.possible_examples)[:5])]
        for each in review.conflicts
    ]
    return Table(
        ["separation", "subjects who have all of it", "who may have, by the context", "for example"], rows
    )


def _roles(review: Review, has_log: bool) -> Iterator[Part]:
    if not review.roles:
        yield "No subject has a role."
        return
    if has_log:
        yield _plot(
            [(each.role, each.granted, each.used or 0) for each in review.roles[:20]],
            "Permissions that each role grants by itself: what its holders have used, and what none of them has. Roles"
            " with long bars to the left grant more than is needed.",
        )
    used = ["used", "never used, for example"] if has_log else []
    rows = [
        [each.role, each.holders, each.granted, *([each.used, ", ".join(each.unused)] if has_log else [])]
        for each in review.roles
    ]
    yield Table(["role", "holders", "permissions", *used], rows, "All roles", folded=len(rows) > 20)


def _policies(review: Review, has_log: bool) -> Iterator[Part]:
    yield "In pairs of subject and permission to which the policy applies in some context, the least used first."
    used = ["used"] if has_log else []
    rows = [[each.policy, each.granted, *([each.used] if has_log else [])] for each in review.policies]
    yield Table(["policy", "grants", *used], rows, "All policies", folded=len(rows) > 20)


def _subjects(review: Review, has_log: bool) -> Iterator[Part]:
    if has_log and review.subjects:
        yield _plot(
            [(each.name, each.allowed, each.used or 0) for each in review.subjects],
            "Permissions of the subjects who have most: used, and not used.",
        )
    yield _access("subject", review.subjects, has_log)


def _access(noun: str, several: Sequence[Access], has_log: bool) -> Table:
    used = ["used"] if has_log else []
    rows = [[each.name, each.allowed, each.asking, *([each.used] if has_log else [])] for each in several]
    return Table([noun, "allowed", "depend on the context", *used], rows)


def _plot(rows: Sequence[tuple[str, int, int]], caption: str) -> Plot:
    names, granted, used = zip(*rows, strict=True)
    left = [all_ - some for all_, some in zip(granted, used, strict=True)]
    return Plot(bars(names, left, used, "permissions", SIDES), caption)
