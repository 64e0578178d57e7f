"""Object patterns: what they match, and the index over many."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdp.oasis.errors import InvalidTerm
from pdp.oasis.pattern import ObjectPattern, PatternIndex


def matches(pattern: str, object_id: str) -> tuple[str, ...] | None:
    index: PatternIndex[str] = PatternIndex()
    index.add(ObjectPattern.parse(pattern), "found")
    found = index.find(object_id)
    assert len(found) <= 1
    return found[0][1] if found else None


@pytest.mark.parametrize(
    ("pattern", "object_id", "holes"),
    [
        ("/a/b", "/a/b", ()),
        ("/a/b", "/a/b/", None),
        ("/patients/{p}/record", "/patients/p1/record", ("p1",)),
        ("/patients/{p}/record", "/patients/p1/x/record", None),
        ("/patients/{p}/{q}", "/patients/1/2", ("1", "2")),
        ("/x/*", "/x/1", ()),
        ("/x/*", "/x/1/2", None),
        ("/x/{name}.txt", "/x/a.b.txt", ("a.b",)),
        ("/x/{name}.txt", "/x/.txt", None),
        ("uk.gov.*", "uk.gov.pito.plates", ()),
        ("/deep/**", "/deep/1/2/3", ()),
        ("/deep/**", "/deep", None),
        ("/deep/{a}/**", "/deep/1/2", ("1",)),
        ("**", "anything/../at all", ()),
    ],
)
def test_a_pattern_matches_segment_by_segment(pattern, object_id, holes):
    assert matches(pattern, object_id) == holes


@pytest.mark.parametrize("part", ["", ".", ".."])
@pytest.mark.parametrize("pattern", ["/d/{x}/r", "/d/*/r", "/d/**", "/d/{x}/**"])
def test_no_hole_is_filled_by_what_a_path_could_be_resolved_through(pattern, part):
    assert matches(pattern, f"/d/{part}/r") is None


@pytest.mark.parametrize(
    "pattern", ["", "/{a}/{a}", "/{a}{b}", "/**/x", "/a**", "/{1}", "/{a", "/x}", "/{a}*"]
)
def test_what_could_be_matched_in_several_ways_is_refused(pattern):
    with pytest.raises(InvalidTerm):
        ObjectPattern.parse(pattern)


def by_regex(pattern: ObjectPattern, object_id: str) -> bool:
    return re.search(pattern.regex({}), object_id) is not None


segments = st.sampled_from(["a", "b", "ab", "", ".", "..", "a.txt", ".txt", "é\n"])
objects = st.lists(segments, min_size=1, max_size=4).map("/".join)
patterns = st.lists(
    st.sampled_from(["a", "b", "", "*", "{}", "{}.txt", "a*", "*b"]), min_size=1, max_size=3
).flatmap(
    lambda parts: st.sampled_from(["", "/**"]).map(
        lambda end: "/".join(p.replace("{}", f"{{h{i}}}") for i, p in enumerate(parts)) + end
    )
)


@given(st.lists(patterns.filter(bool), max_size=8), objects)
def test_the_index_finds_what_each_pattern_matches_by_itself(texts, object_id):
    index: PatternIndex[str] = PatternIndex()
    parsed = [ObjectPattern.parse(text) for text in texts]
    for pattern in parsed:
        index.add(pattern, pattern.text)
    expected = sorted(pattern.text for pattern in parsed if by_regex(pattern, object_id))
    assert sorted(text for text, _ in index.find(object_id)) == expected


@given(patterns.filter(bool), objects)
def test_what_fills_the_holes_makes_the_object_again(text, object_id):
    pattern = ObjectPattern.parse(text)
    holes = matches(text, object_id)
    if holes is not None:
        filled = dict(zip(pattern.names, holes, strict=True))
        assert re.search(pattern.regex(filled), object_id)
        if pattern.exact(filled):
            assert text.format(**filled) == object_id
