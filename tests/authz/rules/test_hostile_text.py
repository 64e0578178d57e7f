"""Whatever is given as rules, reading it ends soon, in rules or in one kind of error."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authz.errors import InvalidSyntax
from authz.rules import parse_rules, parse_term
from authz.rules.layout import format_rules
from authz.rules.reader import MOST_TEXT

LANGUAGE = (
    "ALLOW SUBSCRIPTION TO REPLAY OF RESTRICT DELIVERY TRANSFORM EVENT ON publish notify EXECUTE AUTO TYPE FROM NOT "
    "DURING WHERE FILTER FLUENT INITIATED BY TERMINATED OR AND OVERRIDES THEN SHARED AT MOST PER interval NULL IS IN "
    "t a.b user sub.x user.y now() ( ) , : = <> < 'x' \"y\" 5 -1 1e999 $p - + -- # credentials fluent"
)
WORDS = [*LANGUAGE.split(), "'1 hour'", "\n"]
words = st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join)


@settings(max_examples=60)
@given(words | st.text(max_size=60))
def test_any_text_is_rules_or_wrong_syntax(text):
    for read in (parse_rules, format_rules, parse_term):
        with contextlib.suppress(InvalidSyntax):
            read(text)


@settings(max_examples=40)
@given(st.data())
def test_rules_with_a_piece_changed_are_rules_or_wrong_syntax(data):
    text = (
        "a: ALLOW REPLAY OF t WHERE credentials(user, 'x') AND NOT (f(a, 'b') OR sub.x <> NULL)\n"
        "AT MOST 5 PER '1 hour'\n"
        "TRANSFORM EVENT t TO u ON notify EXECUTE drop(a) THEN round(b, 5) WHERE x < now() - interval '2 hours'"
    )
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 12)))
    changed = text[:start] + data.draw(words | st.text(max_size=4)) + text[end:]
    with contextlib.suppress(InvalidSyntax):
        parse_rules(changed)


@pytest.mark.parametrize(
    "where",
    [
        "(" * 5000 + "x = 1",
        "NOT " * 5000 + "x = 1",
        "(x = 1 OR (y = 2 AND " * 20 + "z = 3" + "))" * 20,
        "f(" * 5000 + ")" * 5000,
        "f(" * 20 + ")" * 20,
        "x = 1" + " AND y = 2" * (MOST_TEXT // 10),
        "x = '" + "'" * 10_000,
        "x = " + "9" * 5000,
        "x = $plate",
        "fluent(7, x)",
    ],
)
def test_what_is_too_deep_or_too_large_is_refused(where):
    with pytest.raises(InvalidSyntax):
        parse_rules(f"ALLOW REPLAY OF t WHERE {where}")


def test_many_rules_and_wide_conditions_are_read():
    wide = " OR ".join(f"x = {number}" for number in range(2000))
    rules = parse_rules("\n".join([f"ALLOW REPLAY OF t WHERE {wide}", *["ALLOW REPLAY OF t"] * 2000]))
    assert len(rules) == 2001
