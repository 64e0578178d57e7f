"""Domains: what a parent supplies, what a domain below may add, and what it may not."""

from __future__ import annotations

import pytest

from authz import Identity
from authz.errors import InvalidSyntax
from pdp.oasis.domain import Domains
from pdp.oasis.parser import parse
from pdp.oasis.terms import Instance

KEY = str(Identity.from_seed(b"k" * 32).public)
OTHER = str(Identity.from_seed(b"o" * 32).public)

POLICE = f"""
domain uk.police
trust {KEY} for rank
open role sergeant(force, officer)
[principal(u)] |- officer(u)
officer(u)*, appointment rank(u, "detective")* |- detective(u)
"""
MET = """
domain uk.met under uk.police
officer(u)*, [posted(u, "met")]* |- sergeant("met", u)
track: detective(d)*, [caseAssignment(d, c)]*, appointment courtOrder(c, np)* |- npTracker(d, np)
npTracker(d, np) |- privilege(subscribe, "numberplate/{np}")
detective(d) > caseReader(d)
"""


def domains(*texts: str) -> Domains:
    return Domains(parse(text, f"{number}.roles") for number, text in enumerate(texts, 1))


def refused(*texts: str) -> InvalidSyntax:
    with pytest.raises(InvalidSyntax) as error:
        domains(*texts)
    return error.value


def test_a_domain_has_the_roles_of_its_parent_and_its_own_each_by_full_name():
    book = domains(POLICE, MET).rulebook("uk.met")
    assert dict(book.names) == {
        "officer": "uk.police.officer",
        "detective": "uk.police.detective",
        "sergeant": "uk.police.sergeant",
        "npTracker": "uk.met.npTracker",
        "caseReader": "uk.met.caseReader",
    }
    assert {name: [rule.name for rule in rules] for name, rules in book.activations.items()} == {
        "uk.police.officer": ["uk.police#1"],
        "uk.police.detective": ["uk.police#2"],
        "uk.police.sergeant": ["uk.met#1"],
        "uk.met.npTracker": ["uk.met#track"],
    }
    assert book.trust == {"rank": {KEY}}


def test_a_parent_knows_nothing_of_what_is_below():
    book = domains(POLICE, MET).rulebook("uk.police")
    assert set(book.activations) == {"uk.police.officer", "uk.police.detective"}


def test_siblings_may_use_one_name_for_roles_of_their_own():
    both = domains(
        POLICE, "domain a under uk.police\n|- clerk", "domain b under uk.police\nofficer(u) |- clerk(u)"
    )
    assert set(both.everything().activations) >= {"a.clerk", "b.clerk"}


def test_several_files_may_make_one_domain():
    book = domains("domain a\nrole clerk", "domain a\nclerk |- reader").rulebook("a")
    assert set(book.activations) == {"a.reader"}


def test_a_domain_below_may_not_say_who_is_in_a_role_from_above():
    for statement in (
        "[principal(u)] |- officer(u)",
        "chief(u) > officer(u)\nrole chief(u)",
        "role officer(u)",
    ):
        error = refused(POLICE, f"domain x under uk.police\n{statement}")
        assert "the role `officer` belongs to the domain `uk.police`" in error.problem
        assert (error.source, error.line) == ("2.roles", 2)


def test_an_open_role_may_be_given_below_but_not_declared_again():
    domains(POLICE, 'domain x under uk.police\n[principal(u)] |- sergeant("x", u)')
    assert "belongs to" in refused(POLICE, "domain x under uk.police\nopen role sergeant(a, b)").problem


def test_a_domain_below_may_not_add_to_whose_signature_counts():
    error = refused(POLICE, f"domain x under uk.police\ntrust {OTHER} for rank")
    assert "the domain `uk.police` says whose `rank` counts" in error.problem
    domains(POLICE, f"domain x under uk.police\ntrust {OTHER} for courtOrder")


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        (["domain a under b"], "the parent `b` is not among the domains given"),
        (["domain a under b", "domain b under a"], "is below itself"),
        (["domain a under b", "domain b", "domain a"], "it can have only one"),
        (["docter(d) |- x(d)\n[f(d)] |- doctor(d)"], "did you mean `doctor`?"),
        (["[f(d)] |- a(d)\na(d), caseAssignment(d) |- b(d)"], "write `appointment caseAssignment(...)`"),
        (["role a(x)\na(x, y) |- b(x)"], "`a(x, y)` should have 1 parameters"),
        (["[f(x)] |- a(x)\n[f(x, y)] |- b(x)"], "as this fact has elsewhere"),
        (["[principal(x, y)] |- a(x)"], "`principal(x, y)` should have 1 parameters"),
        (["a > b\nb > c\nc > a"], "becomes senior to itself"),
        (["x: |- a\nx: |- b"], "two rules are named `x`"),
    ],
)
def test_what_does_not_fit_together_is_refused(texts, problem):
    assert problem in refused(*texts).problem


def test_seniority_reaches_through_all_roles_between_and_carries_parameters():
    book = domains("""
        role chief(d, w), other(d)
        chief(d, w) > head(w)
        head(w) > nurse(w)
        head("w1") > special
        other(d) > nurse(d)
    """).rulebook()
    implied = book.implied(Instance("chief", ("ann", "w1")))
    assert set(implied) == {
        Instance("chief", ("ann", "w1")),
        Instance("head", ("w1",)),
        Instance("nurse", ("w1",)),
        Instance("special"),
    }
    assert Instance("special") not in book.implied(Instance("chief", ("ann", "w2")))
