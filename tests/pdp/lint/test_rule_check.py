"""What is reported of rules is so: which never apply, never have a say, or add nothing."""

from __future__ import annotations

import pytest

from pdp.bundle.bundle import Bundle, File
from pdp.documents.finding import Kind, Level
from pdp.lint.linter import check

OPEN = "o: ALLOW SUBSCRIPTION TO t WHERE user.grade > 1\n"


@pytest.mark.parametrize(
    ("rules", "kind", "line", "part"),
    [
        ("ALLOW REPLAY OF t WHERE user.x = 1 AND user.x = 2", Kind.UNREACHABLE, 1, "nothing meets its condition"),
        (OPEN + "RESTRICT DELIVERY OF t WHERE x = 1 FILTER x = 2", Kind.UNREACHABLE, 2, "nothing passes"),
        ("RESTRICT DELIVERY OF t FILTER x = 1", Kind.UNREACHABLE, 1, "write `ALLOW SUBSCRIPTION TO t` or"),
        ("ALLOW REPLAY OF t\nAUTO REPLAY EVENT TYPE t ON u", Kind.UNREACHABLE, 2, "write `ALLOW SUBSCRIPTION TO t`"),
        (OPEN + "RESTRICT DELIVERY OF t WHERE user.grade = 1 FILTER x = 1", Kind.UNREACHABLE, 2, "whom it describes"),
        (
            OPEN + "a: RESTRICT DELIVERY OF t WHERE x = 1 FILTER y = 1\n"
            "b: RESTRICT DELIVERY OF t WHERE x > 0 FILTER z = 1 OVERRIDES a",
            Kind.SHADOWED,
            2,
            "wherever it applies, `b` does",
        ),
        (OPEN + "ALLOW SUBSCRIPTION TO t WHERE user.grade > 3", Kind.REDUNDANT, 2, "adds nothing to what `o` says"),
        (
            "d: ALLOW REPLAY DURING f\nALLOW REPLAY DURING f WHERE user.x = 1",
            Kind.REDUNDANT,
            2,
            "adds nothing to what `d` says",
        ),
        (OPEN + "ALLOW SUBSCRIPTION TO t WHERE user.grade > 1", Kind.DUPLICATE, 2, "says the same as `o`"),
        (
            OPEN + "a: RESTRICT DELIVERY OF t FILTER x > 5\nb: RESTRICT DELIVERY OF t WHERE y = 1 FILTER x > 2",
            Kind.REDUNDANT,
            3,
            "adds nothing to what `a` says",
        ),
    ],
)  # fmt: skip
def test_what_is_found(rules, kind, line, part):
    (finding,) = check(Bundle.of([File("care.rules", rules)]))
    assert (finding.kind, finding.file, finding.line, finding.level) == (
        kind,
        "care.rules",
        line,
        Level.WARNING,
    )
    assert part in finding.text


@pytest.mark.parametrize(
    "rules",
    [
        OPEN + "RESTRICT DELIVERY OF t WHERE user.grade = 2 FILTER x = 1",
        OPEN + "ALLOW REPLAY OF t WHERE user.grade > 3",
        OPEN + "TRANSFORM EVENT t TO t ON notify EXECUTE perturb(x, 1)\n" * 2,
        "TRANSFORM EVENT t TO t ON publish EXECUTE perturb(x, 1)",
        "ALLOW REPLAY OF t AT MOST 5 PER '1 day'\nALLOW REPLAY OF t WHERE user.grade > 3",
        OPEN + "a: RESTRICT DELIVERY OF t FILTER x > 5\nb: RESTRICT DELIVERY OF t FILTER x > 2\n"
        "c: RESTRICT DELIVERY OF t WHERE y = 1 FILTER y > 1 OVERRIDES a",
    ],
)  # fmt: skip
def test_what_is_well_is_not_reported(rules):
    found = [each for each in check(Bundle.of([File("care.rules", rules)])) if "`c` lets no" not in each.text]
    assert not found


def test_attributes_that_the_manifest_does_not_list_are_errors():
    manifest = "attributes: {subject: {grade: number}, object: {}, action: {}, context: {}}"
    rules = OPEN + "ALLOW REPLAY OF t WHERE user.grad > 1 AND credentials(user, nurse) AND sub.x IS NOT NULL"
    (finding,) = check(Bundle.of([File("care.rules", rules), File("bundle.yaml", manifest)]))
    assert finding.kind is Kind.UNKNOWN_ATTRIBUTE
    assert (finding.line, finding.level) == (2, Level.ERROR)
