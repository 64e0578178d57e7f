"""Resources: which names a pattern matches, and which never, however they are spelt."""

from __future__ import annotations

import pytest
from hypothesis import given

from authz.spki import InvalidCapability, Kind, Resource, Right
from tests.authz.spki.generators import NAMES, resources

types = resources(Kind.TYPE)


@pytest.mark.parametrize(
    ("kind", "pattern", "name", "matches"),
    [
        (Kind.TYPE, "uk.gov.pito.*", "uk.gov.pito.Numberplate", True),
        (Kind.TYPE, "uk.gov.pito.*", "uk.gov.pito.cars.Numberplate", True),
        (Kind.TYPE, "uk.gov.pito.*", "uk.gov.pito", False),
        (Kind.TYPE, "uk.gov.pito.*", "uk.gov.pitox.Numberplate", False),
        (Kind.TYPE, "uk.gov.pito.*", "uk.gov.pito..Numberplate", False),
        (Kind.OBJECT, "/sales/*", "/sales/q1", True),
        (Kind.OBJECT, "/sales/*", "/sales/../hr/pay", False),
        (Kind.OBJECT, "/sales/*", "/sales/./q1", False),
        (Kind.OBJECT, "/sales/*", "/sales//q1", False),
        (Kind.OBJECT, "/sales/*", "/sales/", False),
        (Kind.OBJECT, "/*", "/q1", True),
        (Kind.OBJECT, "/*", "doc:7", False),
        (Kind.OBJECT, "*", "https://example.org/a//b", True),
        (Kind.OBJECT, "https://example.org/a//b", "https://example.org/a//b", True),
        (Kind.NETWORK, "UK Police Network", "UK Police Network", True),
    ],
)
def test_a_pattern_matches_names_below_it_in_their_one_spelling(kind, pattern, name, matches):
    assert Resource(kind, pattern).matches(kind, name) is matches


def test_a_pattern_says_nothing_about_another_kind():
    assert not Resource(Kind.TYPE, "*").matches(Kind.OBJECT, "/sales/q1")


def test_exceptions_are_not_matched():
    resource = Resource.of(Kind.OBJECT, "/*", "/hr/*", "/board")
    assert resource.matches(Kind.OBJECT, "/sales/q1")
    assert not resource.matches(Kind.OBJECT, "/hr/pay")
    assert not resource.matches(Kind.OBJECT, "/board")
    assert not resource.matches(Kind.OBJECT, "//hr/pay")


@given(types, types)
def test_an_intersection_matches_exactly_what_both_match(a, b):
    common = a.intersect(b)
    for name in NAMES[Kind.TYPE]:
        both = a.matches(Kind.TYPE, name) and b.matches(Kind.TYPE, name)
        assert (common is not None and common.matches(Kind.TYPE, name)) is both


@pytest.mark.parametrize(
    ("kind", "pattern", "problem"),
    [
        (Kind.TYPE, "", "printable"),
        (Kind.TYPE, " a", "printable"),
        (Kind.TYPE, "a\nb", "printable"),
        (Kind.TYPE, "\ud800", "printable"),
        (Kind.TYPE, "a.*.b", "at the end"),
        (Kind.TYPE, "a*", r"have a `\.` before"),
        (Kind.OBJECT, "/a.*", "have a `/` before"),
        (Kind.OBJECT, "/a/../*", "segments"),
        (Kind.TYPE, "x" * 1025, "1024 bytes"),
        (Kind.ANY, "a", r"must be `\*`"),
    ],
)
def test_a_pattern_that_could_be_misread_is_refused(kind, pattern, problem):
    with pytest.raises(InvalidCapability, match=problem):
        Resource(kind, pattern)


def test_an_exception_must_lie_below_its_pattern():
    with pytest.raises(InvalidCapability, match="below the pattern"):
        Resource.of(Kind.TYPE, "a.*", "b.C")


def test_each_right_belongs_to_one_kind():
    assert Kind.NETWORK.rights == {Right.CONNECT, Right.INSTALL, Right.PROVIDE, Right.AUDIT, Right.CARRY}
    edits = {right for right in Right if right.endswith(("Attribute", "AttributeName", "AttributeType"))}
    assert Kind.TYPE.rights == {
        Right.DEFINE,
        Right.EXTEND,
        Right.PUBLISH,
        Right.SUBSCRIBE,
        Right.REPLAY,
        *edits,
    }
    assert len(edits) == 4
    assert Kind.OBJECT.rights == {Right.DECIDE}
    assert Kind.ANY.rights == set(Right)
