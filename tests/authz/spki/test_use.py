"""Uses: conditions hold or fail at the moment of use, and rates run out and recover."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from authz import Request
from authz.spki import Capability, Fault, Right, Use, UseRefused, Validity, parse_authority, permit
from authz.spki.condition import Rate
from authz.spki.validity import ALWAYS
from tests.authz.spki.generators import KEYS

HOUR = 3600.0


def holding(text: str, validity: Validity = ALWAYS) -> Capability:
    return Capability(KEYS[0].public, KEYS[1].public, False, parse_authority(text), validity)


def fault(capability: Capability, use: Use, spent=None) -> Fault | None:
    try:
        permit(capability, use, spent or {})
    except UseRefused as error:
        return error.fault
    return None


def test_a_use_outside_the_window_is_refused():
    office = holding("type: a.B\naction: publish\nwhen: 09:00-17:00")
    assert fault(office, Use(Right.PUBLISH, "a.B", 9 * HOUR)) is None
    assert fault(office, Use(Right.PUBLISH, "a.B", 17 * HOUR)) is Fault.OUTSIDE_WINDOW


def test_content_that_is_not_granted_is_refused():
    camera = holding('type: a.B\naction: publish|subscribe\nattributes: location = "Victoria", numberplate')
    assert fault(camera, Use(Right.PUBLISH, "a.B", 0, {"location": "Victoria"})) is None
    assert fault(camera, Use(Right.PUBLISH, "a.B", 0, {"location": "Vauxhall"})) is Fault.CONTENT
    assert fault(camera, Use(Right.PUBLISH, "a.B", 0, {})) is Fault.CONTENT


def test_content_without_the_attribute_passes_no_negated_condition():
    text = 'type: a.B\naction: publish\nwhere: not (event.numberplate starts with "DIPL")'
    camera = holding(text)
    assert fault(camera, Use(Right.PUBLISH, "a.B", 0, {"numberplate": "AE05 XYZ"})) is None
    for content in ({"numberplate": "DIPL 1"}, {}, {"numberplate": 7}):
        assert fault(camera, Use(Right.PUBLISH, "a.B", 0, content)) is Fault.CONTENT
    assert str(camera.authority.grants[0].where[0]) == 'not event.numberplate starts with "DIPL"'


def test_without_content_the_conditions_come_back_to_be_enforced():
    tracker = holding('type: a.B\naction: subscribe\nattributes: numberplate = "AE05 XYZ"')
    granted = permit(tracker, Use(Right.SUBSCRIBE, "a.B", 0), {}).grant
    assert [str(term) for term in granted.where] == ['event.numberplate == "AE05 XYZ"']


def test_a_pdp_decides_only_requests_of_its_kind():
    sales = holding('object: /sales/*\naction: decide\nwhere: subject.role == "clerk"')
    clerk = Request.of("ann", "/sales/q1", "read")
    assert fault(sales, Use(Right.DECIDE, "/sales/q1", 0, clerk)) is Fault.CONTENT
    entity = type(clerk.subject)("ann", {"role": "clerk"})
    assert fault(sales, Use(Right.DECIDE, "/sales/q1", 0, Request.of(entity, "/sales/q1", "read"))) is None
    assert fault(sales, Use(Right.DECIDE, "/hr/pay", 0, clerk)) is Fault.NOT_GRANTED


def test_a_use_out_of_time_is_refused():
    brief = holding("type: a.B\naction: *", Validity(10, 20))
    assert fault(brief, Use(Right.PUBLISH, "a.B", 19.9)) is None
    assert fault(brief, Use(Right.PUBLISH, "a.B", 20)) is Fault.EXPIRED
    assert fault(brief, Use(Right.PUBLISH, "a.B", 9)) is Fault.EXPIRED


@given(st.lists(st.floats(0, 40), max_size=60).map(sorted), st.integers(1, 4), st.integers(1, 15))
def test_a_period_holds_exactly_as_many_uses_as_its_rate(times, count, seconds):
    capability = holding(f"type: a.B\naction: *\nrate: {count} per {seconds} seconds")
    spent, made = {}, []
    for at in times:
        free = sum(each // seconds == at // seconds for each in made) < count
        use = Use(Right.PUBLISH, "a.B", at)
        assert fault(capability, use, spent) is (None if free else Fault.OVER_RATE)
        if free:
            spent = permit(capability, use, spent).spent
            made.append(at)


def test_every_rate_of_a_grant_is_counted():
    capability = holding("type: a.B\naction: *\nrate: 2 per second\nrate: 3 per minute")
    spent = permit(capability, Use(Right.PUBLISH, "a.B", 0), {}).spent
    spent = permit(capability, Use(Right.PUBLISH, "a.B", 0.5), spent).spent
    assert fault(capability, Use(Right.PUBLISH, "a.B", 0.9), spent) is Fault.OVER_RATE
    spent = permit(capability, Use(Right.PUBLISH, "a.B", 1), spent).spent
    assert fault(capability, Use(Right.PUBLISH, "a.B", 2), spent) is Fault.OVER_RATE
    assert {rate for _, rate in spent} == {Rate(2, 1), Rate(3, 60)}


def test_a_refused_use_costs_nothing():
    capability = holding("type: a.B\naction: *\nwhere: event.x == 1\nrate: 1 per day")
    assert fault(capability, Use(Right.PUBLISH, "a.B", 0, {"x": 2})) is Fault.CONTENT
    assert permit(capability, Use(Right.PUBLISH, "a.B", 0, {"x": 1}), {}).spent


def test_a_clock_that_goes_back_gives_no_second_helping():
    capability = holding("type: a.B\naction: *\nrate: 1 per minute")
    spent = permit(capability, Use(Right.PUBLISH, "a.B", 61), {}).spent
    assert fault(capability, Use(Right.PUBLISH, "a.B", 59), spent) is Fault.OVER_RATE


def test_another_grant_may_permit_what_the_first_refuses():
    capability = holding(
        "type: a.B\naction: publish\nwhen: 00:00-01:00\ntype: a.*\naction: publish\nwhen: 02:00-03:00"
    )
    assert fault(capability, Use(Right.PUBLISH, "a.B", 0)) is None
    assert fault(capability, Use(Right.PUBLISH, "a.B", 2 * HOUR)) is None
    assert fault(capability, Use(Right.PUBLISH, "a.B", 4 * HOUR)) is Fault.OUTSIDE_WINDOW
