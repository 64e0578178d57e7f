"""Label policy files: what they say, and how errors are told."""

from __future__ import annotations

import pytest

from authz.errors import InvalidSyntax
from pdp.labels.labels import Access, Label
from pdp.labels.reader import read_label_policy

GOOD = """\
levels: [low, high]
categories: [a]
dominance: restricts
subjects:
  table:
    ann: high {a}
objects:
  attribute: classification
"""


def test_a_file_says_levels_categories_actions_and_where_labels_come_from():
    policy = read_label_policy(GOOD)
    assert (policy.lattice.levels, policy.lattice.categories, policy.permits) == (
        ("low", "high"),
        ("a",),
        False,
    )
    assert policy.actions == {"read": Access.READ, "append": Access.APPEND, "write": Access.WRITE}
    assert policy.subjects.by_id("ann") == Label(1, 1)
    assert policy.objects.by_id("ann") is None


def test_several_actions_may_do_the_same_to_an_object():
    policy = read_label_policy(GOOD + "actions:\n  read: [read, subscribe]\n  append: [publish]\n")
    assert policy.actions == {"read": Access.READ, "subscribe": Access.READ, "publish": Access.APPEND}


@pytest.mark.parametrize(
    ("old", "new", "line", "column", "problem"),
    [
        ("levels: [low, high]", "levels: [low, low]", 1, 15, "`low` cannot stand here: names must differ"),
        ("levels: [low, high]", "levels: []", 1, 1, "no level is given"),
        ("levels: [low, high]", "levels: low", 1, 1, "a list of names"),
        ("levels: [low, high]\n", "", 1, 1, "`levels` is missing: list the levels, lowest first"),
        ("categories", "categorys", 2, 1, "`categorys` is unknown here: expected `categories`"),
        ("restricts", "sometimes", 3, 1, "write `permits` if dominance allows by itself"),
        ("dominance: restricts\n", "", 1, 1, "`dominance` is missing"),
        ("ann: high {a}", "ann: highest", 6, 5, "`highest` is no level: use one of `low`, `high`"),
        ("ann: high {a}", "ann: high {b}", 6, 5, "`b` is no category: use one of `a`"),
        ("  attribute: classification", "  attribute: 3", 8, 3, "the name of an attribute"),
        ("  attribute: classification", "  {}", 7, 1, "no object gets a label"),
        ("  attribute: classification", "  attribut: x", 8, 3, "expected `attribute`"),
    ],
)
def test_an_error_says_where_and_what_would_be_right(old, new, line, column, problem):
    assert old in GOOD
    with pytest.raises(InvalidSyntax) as refused:
        read_label_policy(GOOD.replace(old, new), "labels.yaml")
    assert (refused.value.line, refused.value.column, refused.value.source) == (line, column, "labels.yaml")
    assert problem in refused.value.problem


def test_an_action_does_one_thing_only():
    with pytest.raises(InvalidSyntax, match="`x` is listed already, as read"):
        read_label_policy(GOOD + "actions:\n  read: [x]\n  append: [x]\n")


@pytest.mark.parametrize("text", ["", "- a", "levels: [low]\n---\nlevels: [low]", "{"])
def test_what_is_no_policy_is_refused(text):
    with pytest.raises(InvalidSyntax):
        read_label_policy(text)
