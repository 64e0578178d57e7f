"""Rules as policies: who is let in, what is left for the broker, and that nobody gets round them."""

from __future__ import annotations

import pytest

from authz import Entity, Identity, Request
from authz.change import Touched
from authz.errors import InvalidSyntax
from authz.predicate import And, comparisons, compile_predicate
from authz.rules import parse_rules
from bus.wire.messages import SearchQuery
from pdp.bundle.bundle import Bundle, File
from pdp.bundle.policy_set import InvalidPolicies, PolicySet
from pdp.lint.difference import Difference, obliging
from pdp.replica.policy_point import PolicyPoint
from pdp.replica.shadow import Judge

FIGURE_2 = """
ALLOW REPLAY OF prescribe WHERE sub.prescriber_id <> NULL AND credentials(user, auditor)
RESTRICT DELIVERY OF prescribe WHERE credentials(user, auditor) FILTER isControlled(drug_id)
"""
CARE = """
doctors: ALLOW SUBSCRIPTION TO prescribe WHERE credentials(user, doctor) AND treating(user, patient_id)
audit: ALLOW SUBSCRIPTION TO prescribe WHERE credentials(user, auditor) OR (user.ward = 'a' AND amount > 5)
class: RESTRICT DELIVERY OF prescribe WHERE credentials(user, auditor) FILTER lookup('drugs', drug_id, 'class') = 'A'
blind: TRANSFORM EVENT prescribe TO prescribe ON notify EXECUTE drop(patient_id)
    WHERE NOT (credentials(user, doctor) OR underInvestigation(prescriber_id))
trim: TRANSFORM EVENT prescribe TO prescribe ON publish EXECUTE round(amount, 5) WHERE user.ward = 'a'
again: AUTO REPLAY EVENT TYPE prescribe FROM now() - interval '2 hours' WHERE sub.patient_id = 'p1' ON emergency
FLUENT underInvestigation(who) INITIATED BY opened(who) TERMINATED BY closed(who) SHARED
"""


def read(rules: str, **files: str) -> PolicySet:
    others = [File(name.replace("_", "."), text) for name, text in files.items()]
    return PolicySet.read(Bundle.of([File("care.rules", rules), *others]))


def ask(policies: PolicySet, action: str, *roles: str, kind: str = "prescribe", sub=None, **attributes):
    subject = Entity("ann", {"roles": list(roles), **attributes})
    context = {"sub": sub} if sub is not None else {}
    return policies.engine().evaluate(Request.of(subject, f"/types/{kind}", action, context))


def left(decision) -> dict[str, str]:
    return {str(duty["rule"]): str(duty["interaction"]) for duty in decision.obligations}


def test_the_rules_of_the_paper_as_printed_there():
    policies = read(FIGURE_2)
    assert not ask(policies, "replay", "auditor").allowed
    assert not ask(policies, "replay", sub={"prescriber_id": "n1"}).allowed
    decision = ask(policies, "replay", "auditor", sub={"prescriber_id": "n1"})
    assert decision.allowed
    assert left(decision) == {
        "care.rules:2": "ALLOW REPLAY OF prescribe\n",
        "care.rules:3": "RESTRICT DELIVERY OF prescribe\n    FILTER isControlled(drug_id)\n",
    }


def test_a_fluent_is_asked_about_by_those_whom_a_rule_lets_and_nobody_else():
    rule = "ALLOW REPLAY DURING underInvestigation WHERE credentials(user, auditor) AND sub.prescriber_id IS NOT NULL"
    engine = read(f"{CARE}{rule}\n").engine()

    def asked(fluent: str, *roles: str, **sub: str):
        subject = Entity("ann", {"roles": list(roles)})
        return engine.evaluate(Request.of(subject, f"/context/{fluent}", "replay", {"sub": sub}))

    decision = asked("underInvestigation", "auditor", prescriber_id="n1")
    assert (decision.allowed, decision.obligations) == (True, ())
    assert not asked("underInvestigation", "auditor").allowed
    assert not asked("underInvestigation", "doctor", prescriber_id="n1").allowed
    assert not asked("treating", "auditor", prescriber_id="n1").allowed
    with pytest.raises(InvalidPolicies, match="may depend on the user, `sub` and `context` only"):
        read("ALLOW REPLAY DURING treating WHERE treating(user, patient_id)")


@pytest.mark.parametrize(
    ("asked", "roles", "allowed"),
    [
        ("doctor", ["doctor"], True),
        ("doctor", ["nurse", "doctor(ann)"], True),
        ("doctor", ["consultant(ann)"], True),
        ("doctor", ["doctors", "doctoral(x)", "nurse"], False),
        ("doctor('ann')", ["doctor(ann)"], True),
        ("doctor('ann')", ["consultant(ann)"], True),
        ("doctor('ann')", ["doctor(bob)", "doctor", "consultant(bob)"], False),
        ("'doctor(ann)'", ["consultant(ann)"], True),
        ("clerk()", ["clerk"], True),
        ("clerk()", ["clerk(x)"], False),
    ],
)
def test_a_role_is_meant_with_whatever_parameters_unless_it_is_named_with_some(asked, roles, allowed):
    ranks = "role doctor(d)\nrole consultant(d)\nconsultant(d) > doctor(d)\n"
    policies = read(f"ALLOW SUBSCRIPTION TO prescribe WHERE credentials(user, {asked})", ranks_oasis=ranks)
    assert ask(policies, "subscribe", *roles).allowed is allowed


def test_what_speaks_of_events_fluents_and_tables_is_left_for_the_broker():
    policies = read(CARE)
    doctor = ask(policies, "subscribe", "doctor")
    assert left(doctor) == {
        "doctors": "doctors: ALLOW SUBSCRIPTION TO prescribe\n    WHERE treating(user, patient_id)\n"
    }
    auditor = ask(policies, "subscribe", "auditor")
    assert set(left(auditor)) == {"audit", "class", "blind"}
    assert "WHERE NOT underInvestigation(prescriber_id)" in left(auditor)["blind"]
    warden = ask(policies, "subscribe", ward="a")
    assert left(warden)["audit"] == "audit: ALLOW SUBSCRIPTION TO prescribe\n    WHERE amount > 5\n"
    assert not ask(policies, "subscribe", ward="b").allowed


def test_what_is_left_can_be_read_as_rules():
    for policy in read(CARE).interaction.policies:
        for duty in policy.obligations:
            assert len(parse_rules(str(duty["interaction"]))) == 1


def test_a_rule_that_lets_nobody_in_binds_only_those_whom_another_lets_in():
    policies = read(CARE)
    assert not ask(policies, "replay", "auditor").allowed
    assert "again" in left(ask(policies, "subscribe", "doctor", sub={"patient_id": "p1"}))
    assert not ask(policies, "subscribe", sub={"patient_id": "p1"}).allowed


def test_publishers_and_brokers_ask_for_their_own():
    policies = read(CARE)
    assert set(left(ask(policies, "transform", ward="a"))) == {"trim"}
    assert not ask(policies, "transform", ward="b").allowed
    observed = policies.engine().evaluate(Request.of("broker", "/context", "observe"))
    assert set(left(observed)) == {"care.rules:9"}


def test_other_policies_do_not_get_round_the_rules():
    open_door = '- {uid: door, effect: allow, rules: {}, targets: {resource_id: "/types/*"}}'
    policies = read(CARE, door_yaml=open_door)
    assert not ask(policies, "subscribe", "clerk").allowed
    assert not ask(policies, "replay", "doctor").allowed
    assert ask(policies, "subscribe", "clerk", kind="weather").allowed
    assert set(left(ask(policies, "subscribe", "doctor"))) == {"doctors"}


def test_a_role_counts_for_those_senior_to_it():
    roles = "role surgeon, doctor\nsurgeon > doctor\n"
    assert ask(read(CARE, ward_oasis=roles), "subscribe", "surgeon").allowed
    assert not ask(read(CARE), "subscribe", "surgeon").allowed


def test_roles_may_have_parameters():
    policies = read(
        "ALLOW SUBSCRIPTION TO t WHERE credentials(user, nurse('ward7')) OR credentials(user, 'a.b')"
    )
    assert ask(policies, "subscribe", "nurse(ward7)", kind="t").allowed
    assert ask(policies, "subscribe", "a.b", kind="t").allowed
    assert not ask(policies, "subscribe", "nurse(ward8)", kind="t").allowed


@pytest.mark.parametrize(
    ("text", "line", "part"),
    [
        ("a: ALLOW REPLAY OF t\na: ALLOW REPLAY OF u", 2, "a rule `a` in care.rules:1 already"),
        ("RESTRICT DELIVERY OF t FILTER x = 1 OVERRIDES b", 1, "no rule `b` to override"),
        ("a: ALLOW REPLAY OF t\nRESTRICT DELIVERY OF t FILTER x = 1 OVERRIDES a", 2, "only RESTRICT and TRANSFORM"),
        (
            "a: RESTRICT DELIVERY OF t FILTER x = 1 OVERRIDES b\nb: RESTRICT DELIVERY OF t FILTER x = 1 OVERRIDES a",
            1,
            "overrides it in turn",
        ),
        ("a: RESTRICT DELIVERY OF t FILTER x = 1\nRESTRICT DELIVERY OF u FILTER x = 1 OVERRIDES a", 2, "is about `t`"),
        ("ALLOW REPLAY OF t WHERE credentials(nobody, x)", 1, "needs the user and a role"),
        ("ALLOW REPLAY OF t WHERE credentials(user, x) = 3", 1, "compared with nothing"),
        (
            "ALLOW REPLAY OF t WHERE " + " AND ".join(f"(user.a = {n} OR b = {n})" for n in range(7)),
            1,
            "128 alternatives",
        ),
    ],
)  # fmt: skip
def test_rules_that_cannot_stand_are_refused_with_their_place(text, line, part):
    with pytest.raises(InvalidPolicies) as caught:
        read(text)
    (problem,) = caught.value.problems
    assert isinstance(problem, InvalidSyntax)
    assert (problem.source, problem.line) == ("care.rules", line)
    assert part in problem.problem


def test_a_label_is_no_name_of_another_policy():
    with pytest.raises(InvalidPolicies, match=r"there is a policy `doctors` in door\.yaml already"):
        read(CARE, door_yaml="- {uid: doctors, effect: allow, rules: {}, targets: {}}")


def test_a_change_names_the_types_it_bears_on():
    changed = Difference.between(read(CARE), read(CARE.replace("'class') = 'A'", "'class') = 'B'")))
    assert changed.altered == ("class",)
    assert all(isinstance(each, Touched) for each in changed.effects)
    subject = Entity("ann", {"roles": ["auditor"]})
    wheres = [compile_predicate(each.where) for each in changed.effects]
    assert any(holds(Request.of(subject, "/types/prescribe", "subscribe")) for holds in wheres)
    assert not any(holds(Request.of(subject, "/types/weather", "subscribe")) for holds in wheres)
    assert not any(holds(Request.of(subject, "/types/prescribe", "transform")) for holds in wheres)


def test_deciding_a_second_time_by_the_reference_agrees():
    policies = read(CARE)
    judge = Judge(policies)
    for roles in ([], ["doctor"], ["auditor"], ["doctor", "auditor"]):
        for action in ("subscribe", "replay", "transform", "observe"):
            request = Request.of(Entity("ann", {"roles": roles, "ward": "a"}), "/types/prescribe", action)
            assert not [*judge.divergences(request, policies.engine().evaluate(request))]


def test_what_enforcers_are_obliged_to_is_compared_besides():
    stricter = CARE.replace("'class') = 'A'", "'class') = 'B'")
    assert obliging(read(CARE), read(stricter)) == ("class",)
    assert obliging(read(CARE), read(CARE)) == ()
    assert obliging(read(CARE), read("")) == tuple(read(CARE).interaction.sources)


def test_rules_are_packed_signed_and_opened_with_the_rest():
    key = Identity.generate()
    bundle = Bundle.of([File("care.rules", CARE), File("care/cases.yaml", "[]")])
    opened = Bundle.open(bundle.sign(key), {key.public}).value
    assert [each.path for each in opened.files] == ["care.rules"]
    assert PolicySet.read(opened).interaction == read(CARE).interaction


async def test_who_may_receive_events_can_be_searched_for():
    people = (
        "subjects: {ann: {roles: [auditor]}, bob: {roles: [doctor]}, carl: {roles: [clerk]}, dora: {ward: a}}"
    )
    policies = PolicySet.read(Bundle.of([File("care.rules", CARE), File("entities.yaml", people)]))
    query = SearchQuery("subject", None, Entity("/types/prescribe"), Entity("subscribe"), {})
    page = await PolicyPoint(policies).search(query)
    assert page.found == ("ann", "bob", "dora")


def test_a_certificate_that_comes_with_an_answer_implies_it():
    engine = read(CARE).engine(certify=True)
    subjects = [
        Entity("ann", {"roles": list(roles), **({"ward": ward} if ward else {})})
        for roles in ((), ("doctor",), ("auditor",), ("doctor", "auditor"))
        for ward in ("", "a")
    ]
    requests = [
        Request.of(each, thing, action)
        for each in subjects
        for thing in ("/types/prescribe", "/types/other", "/context")
        for action in ("subscribe", "replay", "transform", "observe")
    ]
    decisions = [(each, engine.evaluate(each)) for each in requests]
    certified = [each for _, each in decisions if each.certificate]
    assert certified
    for decision in certified:
        holds = compile_predicate(And(tuple(each.predicate for each in decision.certificate)))
        for request, other in decisions:
            if holds(request):
                assert (other.allowed, other.obligations) == (decision.allowed, decision.obligations)


def test_an_explanation_says_which_rules_could_matter_and_what_they_lack():
    request = Request.of(Entity("ann", {"roles": ["clerk"]}), "/types/prescribe", "subscribe")
    explanation = str(read(CARE).engine().explain(request))
    assert (
        "deny rules:prescribe:subscribe (rules speak of `prescribe`, and none of them allows this)"
        in explanation
    )
    assert "allow doctors (ALLOW SUBSCRIPTION TO prescribe) does not apply" in explanation
    assert 'would need subject.roles names ["doctor"]' in explanation


def test_those_whom_many_rules_let_in_by_role_are_asked_for_in_one_comparison():
    allows = "\n".join(f"ALLOW SUBSCRIPTION TO t WHERE credentials(user, r{n})" for n in range(300))
    policies = read(
        f"{allows}\nALLOW SUBSCRIPTION TO t WHERE user.x = 1\nb: RESTRICT DELIVERY OF t FILTER y = 1"
    )
    (bar,) = [each for each in policies.interaction.policies if each.id == "b"]
    assert len(list(comparisons(bar.condition))) == 4  # type, action, roles and x
    assert "b" in left(ask(policies, "subscribe", "r299", kind="t"))
    assert "b" in left(ask(policies, "subscribe", kind="t", x=1))
    assert not ask(policies, "subscribe", "r300", kind="t").allowed
