from __future__ import annotations

import pytest

from authz import Decision, Entity, Reason, Request
from authz.authority import decision_hash
from authz.decision import HeldRoles, Inference
from authz.predicate.terms import Equal, Literal
from authz.predicate.terms import Path as Place
from bus.audit import MASKED, SALT, Mask
from bus.audit.masking import MAX_DEPTH

ALLOW = Decision(True, policies=("p",), epoch=3)


def ask(subject: dict[str, object] | None = None, context: dict[str, object] | None = None) -> Request:
    return Request.of(Entity("ann", subject or {}), "/x", "read", context)


def test_values_are_masked_by_part_and_name_however_deep_they_are():
    mask = Mask(["subject.salary", "context.patient.*", "*.secret"])
    patient = {"name": "bob", "born": {"year": 1970}}
    request = ask({"salary": 7, "team": "red"}, {"patient": patient, "all": [[{"secret": 1, "open": 2}]]})
    shown, _, _ = mask.hide(request, ALLOW)
    assert shown.subject.attributes == {"salary": MASKED, "team": "red"}
    assert shown.context == {
        "patient": {"name": MASKED, "born": MASKED},
        "all": [[{"secret": MASKED, "open": 2}]],
    }
    assert mask.hide(ask({"team": "red"}), ALLOW) == (ask({"team": "red"}), ALLOW, b"")


def test_what_a_decision_may_tell_of_attributes_is_left_out():
    mask = Mask(["subject.salary", "subject.roles"])
    decision = Decision(
        True,
        detail="since the salary is 734512",
        obligations=({"name": "note", "text": "pays 734512"}, {"name": "log"}),
        certificate=(Literal(Equal(Place("subject", ("salary",)), 734_512)),),
        roles=HeldRoles(("clerk",), 1.0),
    )
    request = ask({"salary": 734_512})
    _, shown, signed = mask.hide(request, decision)
    assert shown == Decision(True, obligations=({"name": MASKED, "text": MASKED}, {"name": "log"}))
    assert signed == decision_hash(mask.salted(request), decision)
    certificate = (Literal(Equal(Place("subject"), "ann")), Literal(Equal(Place("object", ("salary",)), 1)))
    harmless = Decision(True, certificate=certificate)
    assert mask.hide(ask({"team": "red"}), harmless)[:2] == (ask({"team": "red"}), harmless)
    _, shown, signed = mask.hide(Request.of("ann", "/x", "read"), decision)  # the PDP has looked it up
    assert (shown.certificate, shown.detail, shown.roles) == (None, "", None)
    assert signed == decision_hash(mask.salted(Request.of("ann", "/x", "read")), decision)


def test_roles_that_a_pdp_has_looked_up_cannot_be_guessed_where_they_are_masked():
    mask, request = Mask(["subject.roles"]), Request.of("ann", "/x", "read")
    decision = Decision(True, roles=HeldRoles(("clerk",), 1.0))
    assert SALT in mask.salted(request).context
    _, shown, signed = mask.hide(request, decision)
    assert (shown.roles, signed) == (None, decision_hash(mask.salted(request), decision))
    assert signed != decision_hash(request, decision)
    _, _, signed = mask.hide(request, ALLOW)  # which the PDP has signed with the salt, too
    assert signed == decision_hash(mask.salted(request), ALLOW)


def test_what_is_nested_deeply_is_hidden_whole():
    deep: object = 1
    for number in range(900):
        deep = {"in": deep} if number % 2 else [deep]
    mask, request = Mask(["subject.salary"]), ask({"team": "red"}, {"deep": deep})
    shown, _, _ = mask.hide(request, Decision(True, obligations=({"name": "log", "value": 71},)))
    left: object = shown.context["deep"]
    for _ in range(MAX_DEPTH):
        assert isinstance(left, (dict, list))
        left = left["in"] if isinstance(left, dict) else left[0]
    assert left == MASKED
    assert SALT in mask.salted(request).context


@pytest.mark.parametrize(
    "decision",
    [
        Decision(True, inferred=Inference("precise")),
        Decision(False, Reason.TIMEOUT, detail="no PDP answered"),
    ],
)
def test_what_no_pdp_has_signed_has_no_hash_to_guess_by(decision: Decision):
    _, shown, signed = Mask(["subject.salary"]).hide(ask({"salary": 1}), decision)
    assert (shown, signed) == (decision, b"")


def test_a_salt_is_the_same_for_the_same_question_and_another_elsewhere():
    one, other = Mask(["subject.salary"]), Mask(["subject.salary"])
    request = ask({"salary": 1}, {"from": 2})
    assert one.salted(request) == one.salted(request) != other.salted(request)
    assert one.salted(request).context[SALT] != one.salted(ask({"salary": 2}, {"from": 2})).context[SALT]
    assert {**one.salted(request).context, SALT: ""} == {"from": 2, SALT: ""}
    plain = ask({"team": "red"})
    assert one.salted(plain) is plain
