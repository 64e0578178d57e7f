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
