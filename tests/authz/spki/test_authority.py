"""Authorities: what they permit, what two have in common, and when one covers another."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings

from authz import predicate as p
from authz.spki import (
    Authority,
    Grant,
    InvalidCapability,
    Kind,
    Resource,
    Right,
    parse_authority,
)
from tests.authz.spki.generators import authorities, permits, uses


def lists_attributes(authority: Authority) -> bool:
    return any(grant.attributes is not None for grant in authority.grants)


@given(authorities, authorities)
def test_the_intersection_does_not_depend_on_the_order(a, b):
    assert a.intersect(b) == b.intersect(a)


@given(authorities, authorities, authorities)
@settings(max_examples=60)
def test_the_intersection_does_not_depend_on_the_grouping(a, b, c):
    ab, bc = a.intersect(b), b.intersect(c)
    assert (ab and ab.intersect(c)) == (bc and a.intersect(bc))


@given(authorities)
def test_an_authority_intersected_with_itself_is_itself(a):
    assert a.intersect(a) == a


@given(authorities, authorities, uses)
@settings(max_examples=60)
def test_the_intersection_permits_what_both_permit_and_nothing_else(a, b, use):
    both = permits(a, use) and permits(b, use)
    if lists_attributes(a) and lists_attributes(b):  # which may have none in common, and then nothing is left
        assert both or not permits(a.intersect(b), use)
    else:
        assert permits(a.intersect(b), use) is both


@given(authorities, authorities)
def test_an_intersection_is_covered_by_both_sides(a, b):
    common = a.intersect(b)
    assume(common is not None)
    assert a.covers(common)
    assert b.covers(common)


@given(authorities, authorities, uses)
def test_one_that_covers_another_permits_all_that_the_other_does(a, b, use):
    both = Authority.of(*a.grants, *b.grants)
    assert both.covers(a)
    assert both.covers(b)
    if permits(a, use):
        assert permits(both, use)


def test_everything_and_x_have_x_in_common():
    everything = parse_authority("resource: *\naction: *")
    camera = parse_authority(
        "type: uk.gov.pito.Numberplate\naction: publish\nattributes: location, numberplate"
    )
    assert everything.intersect(camera) == camera


def test_rights_over_another_kind_do_not_survive_meeting_that_kind():
    connecting = parse_authority("resource: *\naction: connect|publish")
    assert connecting.intersect(parse_authority("object: /sales/*\naction: *")) is None


def test_a_restriction_binds_even_where_its_attribute_may_not_be_seen():
    victoria = parse_authority('type: a.B\naction: subscribe\nattributes: location = "Victoria", numberplate')
    numberplates = parse_authority("type: a.B\naction: subscribe\nattributes: numberplate")
    common = victoria.intersect(numberplates)
    assert common is not None
    assert common.grants[0].attributes == frozenset({"numberplate"})
    assert common.grants[0].where == (p.Equal(p.Path("event", ("location",)), "Victoria"),)


def test_ranges_give_the_tighter_bounds():
    fast = parse_authority("type: a.B\naction: *\nwhere: event.speed > 30 and event.speed < 90")
    slow = parse_authority("type: a.B\naction: *\nwhere: event.speed > 20 and event.speed < 50")
    common = fast.intersect(slow)
    assert common == parse_authority("type: a.B\naction: *\nwhere: event.speed > 30\nwhere: event.speed < 50")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("type: a.*\naction: publish", "type: a.*\naction: subscribe"),
        ("type: a.*\naction: *", "type: b.*\naction: *"),
        ("type: a.*\naction: *\nattributes: x", "type: a.*\naction: *\nattributes: y"),
        ('type: a.*\naction: *\nattributes: x = "1"', 'type: a.*\naction: *\nattributes: x = "2"'),
        ("type: a.*\naction: *\nwhen: 09:00-12:00", "type: a.*\naction: *\nwhen: 12:00-17:00"),
        ("type: a.B\naction: *", "type: a.* except a.B\naction: *"),
    ],
)
def test_any_empty_part_makes_the_whole_empty(one, other):
    assert parse_authority(one).intersect(parse_authority(other)) is None


def test_a_right_over_another_kind_is_refused():
    with pytest.raises(InvalidCapability, match="`connect` is a right over a network, not over a type"):
        Grant.of(Resource(Kind.TYPE, "*"), [Right.CONNECT])


def test_an_authority_out_of_order_is_refused():
    grants = parse_authority("type: a.*\naction: publish\ntype: b.*\naction: publish").grants
    with pytest.raises(InvalidCapability, match="normal form"):
        Authority(grants[::-1])


def test_an_authority_of_too_many_grants_is_refused():
    with pytest.raises(InvalidCapability, match="more than 32 grants"):
        Authority.of(*(Grant.of(Resource(Kind.TYPE, f"a.T{n}")) for n in range(33)))


def test_a_grant_that_could_never_permit_anything_is_refused():
    with pytest.raises(InvalidCapability, match="grants nothing"):
        Grant.of(Resource(Kind.TYPE, "*"), rights=[])
