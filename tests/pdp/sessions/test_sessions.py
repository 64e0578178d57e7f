"""Sessions: activation, membership watched for the life of a role, and what falls when something ends."""

from __future__ import annotations

import pytest

from authz import Identity
from pdp.oasis import Atom, Domains, Instance, Variable, parse
from pdp.oasis.errors import InvalidAppointment, NotEntitled, SessionInUse, UnknownSession
from pdp.sessions import (
    Alive,
    Appointment,
    Asserted,
    Changed,
    Deactivation,
    Draft,
    Membership,
    Refusal,
    Retracted,
    Revoked,
    Sessions,
    issuer_channel,
)

DOMAIN, COURT = Identity.from_seed(b"d" * 32), Identity.from_seed(b"c" * 32)
KEY = str(DOMAIN.public)

HOSPITAL = f"""
trust {KEY} for employed, locum
[principal(u)] |- user(u)
user(u)*, appointment employed(u, "doctor")* |- doctor(u)
locum: user(u)*, appointment locum(u)* |- doctor(u)
user(u), [onSite(u)] |- visitor(u)
doctor(d)*, [treats(d, p)]* |- treating(d, p)
doctor(d)*, [context.hour >= 8 and context.hour < 18]* |- onDuty(d)
treating(d, p)*, onDuty(d)* |- prescriber(d, p)
doctor(d)*, [context.time < 100]* |- probation(d)
user(u)*, [chiefOf(u, w)]* |- chief(u, w)
chief(u, w) > head(w)
head(w)*, [principal(u)] |- rounds(u, w)
head(w), [context.hour < 18] |- appoint nurse(n, w)
head(w) |- appoint employed(u, "doctor")
"""


def instance(text: str) -> Instance:
    return Instance.parse(text)


def certificate(
    name: str, *params: str | int, holder: str = "ann", serial: str = "1", expires: float | None = None
):
    return Appointment("", serial, name, params, holder, 0, expires, "hr", "").signed(DOMAIN)


@pytest.fixture
def hospital() -> Sessions:
    sessions = Sessions(Domains([parse(HOSPITAL)]).rulebook(), 0)
    for channel in ("fact/treats", "fact/onSite", "fact/chiefOf", "context/hour", issuer_channel(KEY)):
        sessions.watch(channel)
    sessions.hear(Changed("hour", 9))
    sessions.hear(Asserted(instance("treats(ann, p1)")))
    sessions.open("s", "ann")
    return sessions


def active(sessions: Sessions, session: str = "s") -> list[str]:
    return [str(role) for role in sessions.roles(session)]


def activate(sessions: Sessions, *roles: str, session: str = "s") -> None:
    for role in roles:
        result = sessions.activate(session, role)
        assert isinstance(result, Membership), str(result)


def full_house(sessions: Sessions) -> list[str]:
    sessions.present("s", certificate("employed", "ann", "doctor", expires=50))
    activate(sessions, "user", "doctor", "treating", "onDuty", "prescriber")
    return active(sessions)


def ended(gone: tuple[Deactivation, ...]) -> list[str]:
    return [str(each.role) for each in gone]


# Activation


def test_a_role_is_activated_when_all_conditions_hold(hospital):
    assert full_house(hospital) == [
        "user(ann)",
        "doctor(ann)",
        "treating(ann, p1)",
        "onDuty(ann)",
        "prescriber(ann, p1)",
    ]
    assert hospital.attributes("s") == {"roles": active(hospital)}


def test_a_refusal_says_what_each_rule_lacks(hospital):
    activate(hospital, "user")
    refusal = hospital.activate("s", "doctor(ann)")
    assert isinstance(refusal, Refusal)
    assert (
        str(refusal)
        == 'roles#2 lacks `appointment employed("ann", "doctor")`; roles#locum lacks `appointment locum("ann")`'
    )
    assert str(hospital.activate("s", "pope")) == "no rule gives `pope`"


def test_several_rules_may_give_one_role(hospital):
    hospital.present("s", certificate("locum", "ann"))
    activate(hospital, "user", "doctor")
    assert active(hospital) == ["user(ann)", "doctor(ann)"]


def test_open_parameters_must_follow_or_be_said(hospital):
    hospital.hear(Asserted(instance("treats(ann, p2)")))
    hospital.present("s", certificate("locum", "ann"))
    activate(hospital, "user", "doctor")
    refusal = hospital.activate("s", "treating(ann, _)")
    assert str(refusal) == "`treating(ann, _)` may be `treating(ann, p1)` or `treating(ann, p2)`: say which"
    activate(hospital, "treating(ann, p2)")
    assert isinstance(hospital.activate("s", Atom("treating", (Variable("_"), "p1"))), Membership)


def test_activating_again_changes_nothing(hospital):
    activate(hospital, "user")
    first = hospital.activate("s", "user(ann)")
    assert hospital.activate("s", "user") is first
    assert active(hospital) == ["user(ann)"]


def test_nobody_becomes_somebody_else(hospital):
    assert isinstance(hospital.activate("s", "user(bob)"), Refusal)
    with pytest.raises(InvalidAppointment):
        hospital.present("s", certificate("locum", "ann", holder="bob"))


def test_a_certificate_counts_only_while_its_issuer_is_heard():
    sessions = Sessions(Domains([parse(HOSPITAL)]).rulebook(), 0)
    sessions.open("s", "ann")
    sessions.present("s", certificate("locum", "ann"))
    activate(sessions, "user")
    assert isinstance(sessions.activate("s", "doctor"), Refusal)
    sessions.watch(issuer_channel(KEY))
    activate(sessions, "doctor")


def test_a_certificate_revoked_before_it_is_used_does_not_count(hospital):
    hospital.present("s", certificate("locum", "ann"))
    hospital.hear(Revoked(KEY, "1"))
    activate(hospital, "user")
    assert isinstance(hospital.activate("s", "doctor"), Refusal)


# Membership


def test_a_revoked_appointment_takes_everything_that_rests_on_it(hospital):
    full_house(hospital)
    gone = hospital.hear(Revoked(KEY, "1"))
    assert ended(gone) == ["doctor(ann)", "treating(ann, p1)", "onDuty(ann)", "prescriber(ann, p1)"]
    assert gone[0].cause == "appointment `1` was revoked"
    assert gone[1].cause == "`doctor(ann)` is no longer active"
    assert active(hospital) == ["user(ann)"]


def test_a_changed_fact_takes_only_what_rests_on_it(hospital):
    full_house(hospital)
    assert ended(hospital.hear(Retracted(instance("treats(ann, p1)")))) == [
        "treating(ann, p1)",
        "prescriber(ann, p1)",
    ]
    assert active(hospital) == ["user(ann)", "doctor(ann)", "onDuty(ann)"]


def test_a_changed_context_takes_what_no_longer_holds(hospital):
    full_house(hospital)
    assert hospital.hear(Changed("hour", 17)) == ()
    gone = hospital.hear(Changed("hour", 18))
    assert ended(gone) == ["onDuty(ann)", "prescriber(ann, p1)"]
    assert gone[0].cause == "`context.hour >= 8 and context.hour < 18` is no longer true"


def test_an_expired_appointment_ends_its_role_by_the_timer(hospital):
    full_house(hospital)
    assert hospital.until("s") == 50
    assert hospital.advance(49.9) == ()
    assert "doctor(ann)" in ended(hospital.advance(50))
    assert hospital.until("s") is None


def test_a_constraint_on_the_time_ends_its_role_by_the_timer(hospital):
    hospital.present("s", certificate("locum", "ann"))
    activate(hospital, "user", "doctor", "probation")
    assert hospital.advance(99) == ()
    assert ended(hospital.advance(100)) == ["probation(ann)"]


def test_a_silent_channel_fails_closed(hospital):
    hospital.watch("fact/treats", patience=10)
    hospital.load("fact/treats", [Asserted(instance("treats(ann, p1)"))])
    full_house(hospital)
    hospital.advance(9)
    hospital.hear(Alive("fact/treats"))
    assert hospital.advance(19) == ()
    gone = hospital.advance(19.1)
    assert ended(gone) == ["treating(ann, p1)", "prescriber(ann, p1)"]
    assert gone[0].cause == "`fact/treats` is silent"
    assert isinstance(hospital.activate("s", "treating"), Refusal)


def test_a_fact_that_is_missing_from_a_fresh_snapshot_ends_its_role(hospital):
    full_house(hospital)
    hospital.watch("fact/treats")
    assert ended(hospital.load("fact/treats", [])) == ["treating(ann, p1)", "prescriber(ann, p1)"]


def test_a_condition_without_mark_is_needed_only_at_activation(hospital):
    hospital.hear(Asserted(instance("onSite(ann)")))
    activate(hospital, "user", "visitor")
    assert hospital.hear(Retracted(instance("onSite(ann)"))) == ()
    hospital.deactivate("s", instance("user(ann)"))
    assert active(hospital) == ["visitor(ann)"]


def test_the_membership_rule_is_that_of_the_rule_used(hospital):
    hospital.present("s", certificate("employed", "ann", "doctor"))
    hospital.present("s", certificate("locum", "ann", serial="2"))
    activate(hospital, "user", "doctor")
    assert hospital.hear(Revoked(KEY, "2")) == ()
    assert ended(hospital.hear(Revoked(KEY, "1"))) == ["doctor(ann)"]


def test_a_role_may_rest_on_a_senior_of_what_the_rule_asks_for(hospital):
    hospital.hear(Asserted(instance("chiefOf(ann, w1)")))
    activate(hospital, "user", "chief", "rounds")
    assert active(hospital) == ["user(ann)", "chief(ann, w1)", "rounds(ann, w1)"]
    assert ended(hospital.hear(Retracted(instance("chiefOf(ann, w1)")))) == [
        "chief(ann, w1)",
        "rounds(ann, w1)",
    ]


def test_logging_out_collapses_the_tree_of_that_session_only(hospital):
    full_house(hospital)
    hospital.open("t", "ann")
    activate(hospital, "user", session="t")
    assert set(ended(hospital.close("s").deactivated)) == set(full_house_names())
    assert active(hospital, "t") == ["user(ann)"]
    with pytest.raises(UnknownSession):
        hospital.roles("s")


def full_house_names() -> list[str]:
    return ["user(ann)", "doctor(ann)", "treating(ann, p1)", "onDuty(ann)", "prescriber(ann, p1)"]


def test_a_session_is_opened_once(hospital):
    with pytest.raises(SessionInUse):
        hospital.open("s", "bob")


# New rules


def adopting(sessions: Sessions, old: str, new: str) -> list[str]:
    assert old in HOSPITAL
    return ended(sessions.adopt(Domains([parse(HOSPITAL.replace(old, new))]).rulebook()))


def test_a_role_whose_rule_stays_outlives_new_rules_whatever_their_order(hospital):
    full_house(hospital)
    assert adopting(hospital, "[principal(u)] |- user(u)", "|- guest\n[principal(u)] |- user(u)") == []
    activate(hospital, "guest")


def test_a_role_ends_if_its_rule_is_gone(hospital):
    full_house(hospital)
    assert adopting(hospital, "[treats(d, p)]*", "[cares(d, p)]*") == [
        "treating(ann, p1)",
        "prescriber(ann, p1)",
    ]
    assert isinstance(hospital.activate("s", "treating"), Refusal)


def test_every_role_ends_if_seniority_or_trust_changes(hospital):
    everything = full_house(hospital)
    assert adopting(hospital, "for employed, locum", "for locum") == everything
    activate(hospital, "user")
    assert isinstance(hospital.activate("s", "doctor"), Refusal)
    hospital.present("s", certificate("locum", "ann", serial="2"))
    activate(hospital, "doctor")
    assert adopting(hospital, "chief(u, w) > head(w)", "role head(w)") == ["user(ann)", "doctor(ann)"]


# Appointing


def test_a_role_that_may_appoint_does_so_within_its_parameters(hospital):
    hospital.hear(Asserted(instance("chiefOf(ann, w1)")))
    activate(hospital, "user", "chief")
    given = hospital.appoint("s", Draft(instance("nurse(bob, w1)"), "bob", "n1"), DOMAIN)
    assert (given.appointer, given.role, given.holder, given.session) == ("ann", "head", "bob", "")
    given.check("bob", frozenset({KEY}))
    with pytest.raises(NotEntitled):
        hospital.appoint("s", Draft(instance("nurse(bob, w2)"), "bob", "n2"), DOMAIN)
    hospital.hear(Changed("hour", 18))
    with pytest.raises(NotEntitled):
        hospital.appoint("s", Draft(instance("nurse(bob, w1)"), "bob", "n3"), DOMAIN)


def appointed_by_ann(hospital: Sessions, bound: bool = False) -> Appointment:
    """Ann, chief of ward 1, makes Bob a doctor; Bob becomes active in it."""
    hospital.hear(Asserted(instance("chiefOf(ann, w1)")))
    activate(hospital, "user", "chief")
    given = hospital.appoint("s", Draft(instance("employed(bob, doctor)"), "bob", "b1", bound=bound), DOMAIN)
    hospital.open("bob", "bob")
    hospital.present("bob", given)
    activate(hospital, "user", "doctor", session="bob")
    return given


def test_an_appointment_outlives_its_appointers_session(hospital):
    appointed_by_ann(hospital)
    assert hospital.close("s").revoked == ()
    assert active(hospital, "bob") == ["user(bob)", "doctor(bob)"]


def test_an_appointment_bound_to_a_session_ends_with_it(hospital):
    given = appointed_by_ann(hospital, bound=True)
    fallout = hospital.close("s")
    assert fallout.revoked == (Revoked(KEY, "b1"),)
    assert "doctor(bob)" in ended(fallout.deactivated)
    assert given.session == "s"


def test_an_appointment_is_revoked_by_its_appointer_by_the_role_or_by_the_system(hospital):
    given = appointed_by_ann(hospital)
    assert ended(hospital.revoke(given, by="s").deactivated) == ["doctor(bob)"]

    hospital.close("s")
    hospital.open("carl", "carl")
    hospital.hear(Asserted(instance("chiefOf(carl, w2)")))
    with pytest.raises(NotEntitled):
        hospital.revoke(given, by="carl")
    activate(hospital, "user", "chief", session="carl")
    assert hospital.revoke(given, by="carl").revoked == (Revoked(KEY, "b1"),)
    assert hospital.revoke(given, by=None).revoked == (Revoked(KEY, "b1"),)


def test_the_holder_cannot_revoke_what_others_gave(hospital):
    with pytest.raises(NotEntitled):
        hospital.revoke(appointed_by_ann(hospital), by="bob")


# Scenarios


def test_the_detective_tracks_a_numberplate_while_the_court_order_and_the_case_last():
    met = f"""
        domain uk.met
        trust {COURT.public} for courtOrder
        [principal(d)], [staff(d, "detective")]* |- detective(d)
        detective(d)*, [caseAssignment(d, c)]*, appointment courtOrder(c, np)* |- npTracker(d, np)
    """
    sessions = Sessions(Domains([parse(met)]).rulebook("uk.met"), 0)
    for channel in ("fact/staff", "fact/caseAssignment", issuer_channel(str(COURT.public))):
        sessions.watch(channel)
    for fact in ("staff(smith, detective)", "caseAssignment(smith, case7)"):
        sessions.hear(Asserted(instance(fact)))
    order = Appointment("", "o1", "courtOrder", ("case7", "LN07 ABC"), "*", 0, 90, "judge", "").signed(COURT)
    other = Appointment("", "o2", "courtOrder", ("case8", "XY99"), "*", 0, 90, "judge", "").signed(COURT)
    sessions.open("s", "smith")
    sessions.present("s", order)
    sessions.present("s", other)
    activate(sessions, "detective", "npTracker")
    assert sessions.attributes("s") == {
        "roles": ["uk.met.detective(smith)", 'uk.met.npTracker(smith, "LN07 ABC")']
    }
    assert isinstance(sessions.activate("s", "npTracker(smith, XY99)"), Refusal)
    gone = sessions.hear(Retracted(instance("caseAssignment(smith, case7)")))
    assert ended(gone) == ['uk.met.npTracker(smith, "LN07 ABC")']
