"""The layout of files of rules: comments stay, and laying out twice changes nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from authz.rules import parse_rules
from authz.rules.layout import format_rules

UNTIDY = """# about all

-- about a
a: allow replay of t -- beside a
   where x = '-- no comment' # within a
   and y = "# nor this"


# before b
b: allow subscription to u
# the end
"""
TIDY = """# about all

-- about a
-- beside a
# within a
a: ALLOW REPLAY OF t
    WHERE x = '-- no comment' AND y = '# nor this'

# before b
b: ALLOW SUBSCRIPTION TO u

# the end
"""


def test_comments_stay_with_their_rules():
    assert format_rules(UNTIDY) == TIDY
    assert format_rules(TIDY) == TIDY


def test_an_empty_file_stays_empty():
    assert format_rules("\n\n") == ""
    assert format_rules("# only this") == "# only this\n"


pieces = st.sampled_from(
    [
        "# one",
        "-- two 'x'",
        "",
        "a: ALLOW REPLAY OF t -- three",
        "ALLOW SUBSCRIPTION TO t\n# four\nWHERE x = '#'",
        "RESTRICT DELIVERY OF t FILTER x = 1 # five",
    ]
)


@given(st.lists(pieces, max_size=8).map("\n".join))
def test_nothing_is_lost_and_laying_out_twice_changes_nothing(text):
    tidy = format_rules(text)
    assert format_rules(tidy) == tidy
    assert parse_rules(tidy) == parse_rules(text)
    for word in ("one", "two", "three", "four", "five"):
        assert tidy.count(word) == text.count(word)
