import msgspec
import pytest

from authz import Basis, Decision, Inference, Reason


def test_a_decision_with_basis_and_inference_survives_the_wire():
    decision = Decision(
        True, policies=("p",), basis=Basis.ROLES, inferred=Inference("precise", ("a",), stale=True)
    )
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(decision), type=Decision) == decision


def test_a_decision_of_an_older_sender_has_neither_basis_nor_inference():
    old = msgspec.msgpack.encode([False, "no-policy", [], "", 3])
    assert msgspec.msgpack.decode(old, type=Decision) == Decision(False, Reason.NO_POLICY, epoch=3)


def test_a_decision_has_no_truth_value():
    with pytest.raises(TypeError, match="no truth value"):
        bool(Decision(True))


def test_only_policy_allows_and_only_a_pdp_decides():
    decided = {Reason.POLICY, Reason.NO_POLICY, Reason.ATTRIBUTE_UNAVAILABLE, Reason.POLICY_ERROR}
    assert {reason for reason in Reason if Decision(False, reason).decided} == decided


def test_a_decision_reads_as_a_sentence():
    assert str(Decision(True, policies=("p1", "p2"))) == "allow (policy: p1, p2)"
    assert (
        str(Decision(False, Reason.NO_PDP, detail="no PDP serves `/x`"))
        == "deny (no-pdp): no PDP serves `/x`"
    )
    assert (Decision(True).effect, Decision(False).effect) == ("allow", "deny")
