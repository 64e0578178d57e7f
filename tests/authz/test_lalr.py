"""Long texts are read in one loop: to the same values as by lark's trees, and with lark's errors."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from authz.errors import InvalidSyntax
from authz.lalr import Lines, Loop, Unread
from authz.predicate.filter import _LANGUAGE as FILTERS
from authz.predicate.text import _LANGUAGE as PREDICATES
from authz.rules.reader import _RULES as RULES
from authz.spki.text import _LANGUAGE as CAPABILITIES
from authz.syntax import LONG
from pdp.oasis.parser import _LANGUAGE as ROLES
from tests.authz import predicates as some

ROLE_RULES = """\
domain clinic under care  # a comment: role x
open role doctor(d), nurse
consultant(d) > doctor(d)
employ: appointment care.employed(d)*, [treats(d, "p 1")], [context.hour >= 8 and not_before == -2.5] |- doctor(d)
nurse, [subject.ward in ["a", "b"] or object["x-y"] matches "^a"] |- privilege(read|"write all", "/wards/{w}/**")
nurse |- privilege(*, "**")
|- nurse
nurse |- appoint employed(d)
nurse |- capability(subscribe, "vital") attributes a, b where [event.a == 1]
"""
TEXTS = [
    (ROLES, ROLE_RULES),
    (ROLES, ""),
    (ROLES, "role a # at the end"),
    (PREDICATES, 'subject.role == "clerk" and not (object.amount > 5 or context.ip in network "10.0.0.0/8")'),
    (FILTERS, "Lane IN (1, 2) AND NOT stolen = FALSE OR place.lat BETWEEN 51.2 AND 51.7"),
    (
        RULES,
        "audit: ALLOW SUBSCRIPTION TO prescribe WHERE credentials(user, auditor) OR user.ward = 'a' -- so\n",
    ),
    (CAPABILITIES, "type: a.B\naction: *\nwhere: event.speed > 5\n"),
]


@pytest.mark.parametrize(("language", "text"), TEXTS)
def test_what_is_read_is_what_a_tree_gives(language, text):
    assert repr(language.loop.parse(text)) == repr(language.parse_tree(text))


@given(some.predicates)
@settings(max_examples=60)
def test_so_it_is_for_every_predicate(predicate):
    assert PREDICATES.loop.parse(str(predicate)) == PREDICATES.parse_tree(str(predicate))


LONG_TEXT = "role a(x)\n" + 'a(x) |- privilege(read, "/files/{x}/*")\n' * (LONG // 40 + 1)
WRONG = [
    'a(x) |- privilege(read "/x")',
    'a(x) |- privilege(read, "/{x}{y}")',
    "a(99999999999999999999) |- b",
    'a(x), b |- privilege(read, "/x")',
    "role ?",
    "role",
    "[" + "(" * 3000,
]


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_with_a_long_text_is_told_as_of_a_short_one(wrong):
    text = LONG_TEXT + wrong
    with pytest.raises(InvalidSyntax) as told:
        ROLES.parse(text, "long.oasis")
    with pytest.raises(InvalidSyntax) as expected:
        ROLES.parse_tree(text, "long.oasis")
    assert str(told.value) == str(expected.value)


def test_a_long_text_is_read_without_a_tree(monkeypatch):
    monkeypatch.setattr(type(ROLES), "parse_tree", None)
    assert len(ROLES.parse(LONG_TEXT).statements) > LONG // 40


def test_what_stands_in_a_statement_is_where_it_stands():
    read = ROLES.loop.parse("role a, b\n\n  a |- b\n# no\n\tname: b |- a")
    assert [each.place for each in read.statements] == [(1, 1), (1, 1), (3, 3), (5, 2)]


def test_what_is_nested_too_deeply_is_left_to_the_tree():
    with pytest.raises(Unread):
        PREDICATES.loop.parse("(" * 400 + "subject.a" + ")" * 400)


def test_the_end_of_a_comment_is_nothing_else():
    assert str(ROLES.loop.parse("role a # role b\n")) == "role a\n"


def test_lines_and_columns_count_from_one():
    lines = Lines("ab\n\nc")
    assert [lines.place(n) for n in range(5)] == [(1, 1), (1, 2), (1, 3), (2, 1), (3, 1)]


def test_a_grammar_that_cannot_be_read_so_is_refused():
    class Basic:
        class parser:  # noqa: N801 - as lark calls it
            lexer = None

            class parser:  # noqa: N801
                _parse_table = None

    with pytest.raises(NotImplementedError, match="contextual"):
        Loop(Basic, None, "start")
