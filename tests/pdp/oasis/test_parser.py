"""Role policy text: what it means, how it is written out, and how errors are told."""

from __future__ import annotations

import pytest
from hypothesis import given

from authz import Identity
from authz.errors import InvalidSyntax
from authz.predicate import Order, Path
from authz.syntax import Language
from pdp.oasis.parser import _LANGUAGE, MANY_LINES, parse
from pdp.oasis.syntax import (
    Activation,
    Appointed,
    Appointing,
    Authorisation,
    Constraint,
    Declaration,
    Fact,
    Prerequisite,
    Seniority,
    Trust,
    unparse,
)
from pdp.oasis.terms import Atom, Variable
from tests.pdp.oasis import rules as some

D, P = Variable("d"), Variable("p")
KEY = str(Identity.from_seed(b"k" * 32).public)


@given(some.rule_sets)
def test_what_is_written_out_is_read_back(rules):
    assert parse(unparse(rules)) == rules


def test_the_four_kinds_of_condition_are_told_apart_by_how_they_are_written():
    text = """
        # whom a doctor treats, while on shift
        treating: doctor(d)*, appointment nhs.employed(d, "GP"), [treats(d, p)]*,
                  [context.hour < 17]
            |- treating(d, p)
    """
    (rule,) = parse(text).statements
    assert rule == Activation(
        (
            Prerequisite(Atom("doctor", (D,)), True),
            Appointed(Atom("nhs.employed", (D, "GP"))),
            Fact(Atom("treats", (D, P)), True),
            Constraint(Order(Path("context", ("hour",)), "<", 17)),
        ),
        Atom("treating", (D, P)),
        "treating",
    )
    assert rule.place == (3, 9)


def test_each_statement_has_its_form():
    text = f"""
        domain hospital under nhs
        role clerk, auditor(d)
        open role doctor(d)
        trust {KEY} for employed, nhs.qualified
        consultant(d) > doctor(d)
        |- guest
        doctor(d), [object.owner == d] |- privilege(read|"HTTP GET", "/patients/{{p}}/**")
        auditor(d) |- privilege(*, "**")
        head-nurse(d) |- appoint employed(p, "nurse")
    """
    rules = parse(text)
    assert (rules.domain, rules.parent) == ("hospital", "nhs")
    kinds = [
        Declaration,
        Declaration,
        Declaration,
        Trust,
        Seniority,
        Activation,
        Authorisation,
        Authorisation,
        Appointing,
    ]
    assert [type(each) for each in rules.statements] == kinds
    *_, read, audit, appoint = rules.statements
    assert (read.actions, read.pattern.names) == (("read", "HTTP GET"), ("p",))
    assert audit.actions == ()
    assert appoint.appointment == Atom("employed", (P, "nurse"))


@pytest.mark.parametrize(
    ("text", "line", "column", "problem"),
    [
        ("a(x)\n  [b(x)] |- c(x)", 2, 3, "`[` cannot stand here: expected `*` or `,` or `>` or `|-`"),
        ("a(x), |- b(x)", 1, 7, "expected a name or `[` or `appointment`"),
        ("a(x", 1, 4, "the end cannot stand here: expected `)` or `,`"),
        ("a(1.5) |- b", 1, 3, "use a string or a whole number"),
        (f"a({2**63}) |- b", 1, 3, "64 bits"),
        ("a |- privilege(read, 3)", 1, 22, 'expected a "string"'),
        ('a |- privilege(read, "/x/{p}{q}")', 1, 22, "a segment may hold one"),
        ("a(x), [context.hour =< 3] |- b(x)", 1, 21, "`=` cannot stand here"),
        ("trust UABC for a", 1, 7, "is not a public key"),
        ("\ndoctor(d) |- nurse(e)", 2, 1, "nothing binds `e`"),
        ("doctor(_) |- nurse(_)", 1, 1, "`_` in `nurse(_)` stands for nothing known"),
        ("chief(d) > doctor(e)", 1, 1, "must occur in the senior role"),
        ("a(x), [y == subject.id] |- b(x)", 1, 1, "nothing binds `y`"),
        ('a(x), [y == subject.id] |- privilege(read, "/{z}")', 1, 1, "nothing binds `y`"),
        ("a(x), [not subject.x == 1] |- b(x)", 1, 1, "role rules have no negation, write `!=`"),
        ("a(x), [exists subject.x or not subject.x == 1] |- b(x)", 1, 1, "have no negation"),
        ("a(x), [object.id == x] |- b(x)", 1, 1, "a path starts with one of `context`, `subject`"),
        ('a(x), [subject.ip in network "10.0.0.1/8"] |- b(x)', 1, 1, "is no network"),
        ('a(x), b(y) |- privilege(read, "/x")', 1, 1, "exactly one role"),
        ('a(x), [f(x)] |- privilege(read, "/x")', 1, 1, "exactly one role"),
        ('a(x)* |- privilege(read, "/x")', 1, 1, "a privilege is not held"),
        (
            'a(x), [x == subject.id] |- capability(subscribe, "t")',
            1,
            1,
            "put constraints into the rule that gives",
        ),
        ('a(x) |- capability(fly, "t")', 1, 1, "cannot have `fly`: use some of `connect`"),
        ('a(x) |- capability(connect|publish, "t")', 1, 1, "over the same kind of resource"),
        ('a(x) |- capability(subscribe, "t") where [event.a == y]', 1, 1, "nothing binds `y`"),
        (
            'a(x) |- capability(subscribe, "t") where [context.a == x]',
            1,
            1,
            "a path starts with one of `event`",
        ),
        ('a(x) |- capability(subscribe, "t") where [event.a matches "x"]', 1, 1, "where"),
        ('a(x) |- capability(connect, "n") attributes b', 1, 1, "only event types have them"),
        ("role a(1)", 1, 1, "give each parameter one name of its own"),
        ("role a(x, x)", 1, 1, "give each parameter one name of its own"),
    ],
)
def test_an_error_says_where_and_what_would_be_right(text, line, column, problem):
    with pytest.raises(InvalidSyntax) as refused:
        parse(text, "ward.roles")
    assert (refused.value.line, refused.value.column, refused.value.source) == (line, column, "ward.roles")
    assert problem in refused.value.problem


def test_unequal_is_no_negation_since_it_is_false_of_what_is_missing():
    (rule,) = parse("a(x), [x != subject.id and context.mode != 3] |- b(x)").statements
    assert isinstance(rule, Activation)


def many(text: str) -> str:
    """The text with so many lines after it that it is read line by line."""
    return text + "\n" + "\n".join(f"role other{n}(d)  # the {n}th" for n in range(MANY_LINES))


@given(some.rule_sets, some.rule_sets)
def test_a_text_of_many_lines_is_read_as_one_of_few(one, other):
    for rules in (one, other):  # the second time many shapes are known
        text = "\n\n".join(f"  {line} # said" for line in unparse(rules).split("\n"))
        few, read = parse(text), parse(many(text))
        assert read.statements[: len(few.statements)] == few.statements == rules.statements
        assert [each.place for each in read.statements[: len(few.statements)]] == [
            each.place for each in few.statements
        ]
        assert (read.domain, read.parent) == (few.domain, few.parent)


@given(some.rule_sets)
def test_statements_over_several_lines_are_read_as_those_on_one(rules):
    text = many("\n".join(f"  {line} # said" for line in unparse(rules).split("\n")))
    broken = text.replace(" |- ", "\n\t|- ").replace(" attributes ", "\n  # said\n attributes ")
    broken = broken.replace("), ", "),\n\n")
    read, expected = parse(broken).statements, _LANGUAGE.parse(broken).statements
    assert read == expected
    assert [each.place for each in read] == [each.place for each in expected]
    assert read[: len(rules.statements)] == rules.statements


@pytest.mark.parametrize(
    "text",
    [
        'doctor(d),\n  [context.hour < 17]  # on shift\n  |- privilege(read, "/patients/{p}")',
        'doctor(d), [context.hour\n < 17] |-\n  privilege(read,  # all\n "/patients/{p}")',
    ],
)
def test_one_statement_over_several_lines_does_not_leave_the_text_to_the_grammar(text, monkeypatch):
    text = many(text)
    (expected,) = parse(text.split("role other")[0]).statements

    def parse_all(*_: object) -> None:
        raise AssertionError("the text is left to the grammar")

    monkeypatch.setattr(Language, "parse", parse_all)
    assert parse(text).statements[0] == expected


ODD = [
    "a(d)\n|- b(d)",
    "role a,\n b",
    'a |- capability(subscribe, "t")\nwhere [event.x == 1]',
    'a |- capability(subscribe, "t")\nattributes x, y',
    "domain a\nunder b\nrole c",
    "role a role b\na > b",
    "open role a\topen role b",
    'a, [subject.x == "# no comment"] |- b # but this is one',
    "a |- b\n(d)",
    "trust " + KEY + " for a,\nb",
    "not(d) |- role(d)",
    "[subject.x == 1 android] |- b",
    "a |- b\ndomain late",
    "a(d, 1.5) |- b(d)",
    'a |- privilege("x", "{")',
    "a |- attributes\nattributes, b |- c",
    'a |- capability(subscribe, "t")\n# said\n\nwhere |- b',
    "# said\nunder\n|- b",
    "a,\n\tb\r\n|- c",
    "a |- b\n* |- c",
    "\x0brole x",
    "role \x03(d)",
]


@pytest.mark.parametrize("text", ODD)
def test_what_is_odd_means_the_same_among_many_lines_and_is_wrong_at_the_same_place(text):
    def outcome(given_: str) -> tuple[object, ...]:
        try:
            return parse(given_).statements
        except InvalidSyntax as error:
            return str(error), error.line, error.column

    alone = outcome(text)
    assert outcome(many(text))[: len(alone)] == alone
