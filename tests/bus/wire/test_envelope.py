"""Messages are versioned, bounded and typed; whatever else arrives is refused in words, and nothing else happens."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authz import Decision, Entity, Reason, Request
from bus.errors import BadMessage
from bus.wire.envelope import MAX_BYTES, VERSION, Unpack, pack
from bus.wire.messages import (
    Announcement,
    Answers,
    Questions,
    unpack_announcement,
    unpack_answers,
    unpack_questions,
    unpack_raw_questions,
)

REQUEST = Request.of(Entity("alice", {"roles": ["a", "b"], "age": 7}), "/sales/New York", "read", {"t": 1.5})
QUESTIONS = Questions([REQUEST, Request.of("bob", "x", "y")], 0.25)
UNPACKERS = [unpack_questions, unpack_raw_questions, unpack_answers, unpack_announcement]
encode = msgspec.msgpack.encode


def message(*fields: object) -> bytes:
    return bytes([VERSION]) + encode(fields)


@pytest.mark.parametrize(
    ("value", "unpack"),
    [
        (QUESTIONS, unpack_questions),
        (Answers([Decision(True, policies=("p",)), None, Decision(False, Reason.NO_POLICY)]), unpack_answers),
        (Answers(problem="cannot be read"), unpack_answers),
        (Announcement(["prefix@default:/sales"], 3.5), unpack_announcement),
    ],
)
def test_what_is_packed_unpacks(value, unpack):
    assert unpack(pack(value)) == value


def test_another_version_is_refused_and_named():
    with pytest.raises(BadMessage, match="`version` is 2; this side reads version 1") as raised:
        unpack_questions(b"\x02" + pack(QUESTIONS)[1:])
    assert raised.value.field == "version"


def test_an_empty_message_has_no_version():
    with pytest.raises(BadMessage, match="`version` is none"):
        unpack_questions(b"")


def test_unknown_fields_are_ignored():
    """A newer sender may have added some, at every level."""
    newer = message([[["alice", {}, "new"], ["x"], ["y"], {}, "new"]], 0.5, b"", 0, "", "new", {"more": 1})
    assert unpack_questions(newer) == Questions([Request.of("alice", "x", "y")], 0.5)


def test_fields_of_an_older_sender_have_their_defaults():
    assert unpack_questions(message([])) == Questions([], 0.0)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ((5,), "requests"),
        (([5],), "requests[0]"),
        (([[["alice"], ["x"], ["y"]], [["bob"], 7, ["y"]]],), "requests[1].object"),
        (([[[5], ["x"], ["y"]]],), "requests[0].subject.id"),
        (([[["alice", []], ["x"], ["y"]]],), "requests[0].subject.attributes"),
        (([[["alice", {1: 2}], ["x"], ["y"]]],), "requests[0].subject.attributes"),
        (([[["alice"], ["x"], ["y"], "now"]],), "requests[0].context"),
        (([[["alice"], ["x"]]],), "requests[0]"),
        (([[[""], ["x"], ["y"]]],), "requests[0].subject.id"),
        (([], "soon"), "budget"),
    ],
)
def test_a_wrong_type_is_refused_by_the_name_of_its_field(fields, field):
    with pytest.raises(BadMessage) as raised:
        unpack_questions(message(*fields))
    assert raised.value.field == field
    assert str(raised.value).startswith(f"`{field}` ")


def test_a_wrong_type_in_an_answer_is_named_too():
    with pytest.raises(BadMessage) as raised:
        unpack_answers(message([None, [True, "policy", ["p"], 5]]))
    assert raised.value.field == "decisions[1].detail"


def test_what_is_too_large_is_refused_on_both_sides():
    large = Announcement(["x" * MAX_BYTES], 1.0)
    with pytest.raises(BadMessage, match=f"at most {MAX_BYTES} are allowed"):
        pack(large)
    with pytest.raises(BadMessage, match=f"at most {MAX_BYTES} are allowed"):
        unpack_announcement(bytes([VERSION]) + encode(large))


def test_what_cannot_be_encoded_is_refused():
    with pytest.raises(BadMessage, match="cannot be sent"):
        pack(Answers([Decision(True, obligations=({"what": object()},))]))


@pytest.mark.parametrize(
    "body",
    [
        b"\xc1",
        b"\x91" * 200_000,
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\x91\x91\x91\x92\xa1\xff",
        b"\x91\x91\x93\x92\xa1a\x81\xa1k\x81\x80\x01\x91\xa1b\x91\xa1c",
        b"\x91\x91\x93\x92\xa1a\x81\xa1k\xc7\x0c\xff" + b"\xff" * 12 + b"\x91\xa1b\x91\xa1c",
    ],
)
def test_bytes_made_to_break_a_decoder_are_refused(body):
    with pytest.raises(BadMessage):
        unpack_questions(bytes([VERSION]) + body)
    for unpack in UNPACKERS:
        _reads_or_refuses(unpack, bytes([VERSION]) + body)


@settings(max_examples=150)
@given(st.binary(max_size=200), st.booleans())
def test_no_bytes_raise_anything_but_bad_message(data, versioned):
    payload = bytes([VERSION]) + data if versioned else data
    for unpack in UNPACKERS:
        _reads_or_refuses(unpack, payload)


@settings(max_examples=150)
@given(st.data())
def test_no_damage_to_a_good_message_raises_anything_but_bad_message(data):
    payload = bytearray(pack(QUESTIONS))
    for _ in range(data.draw(st.integers(1, 4))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    for unpack in UNPACKERS:
        _reads_or_refuses(unpack, bytes(payload))


def _reads_or_refuses(unpack: Unpack[msgspec.Struct], payload: bytes) -> None:
    problem = "none"
    try:
        unpack(payload)
    except BadMessage as error:
        problem = str(error)
    assert problem
    assert "\n" not in problem


decisions = st.lists(
    st.sampled_from([None, Decision(True), Decision(False, policies=("p",)), Decision(True)])
)


@given(decisions)
def test_a_decision_made_for_several_questions_is_sent_once_and_answers_each_of_them(given):
    answers = unpack_answers(pack(Answers.of(given)))
    assert answers.in_order() == given
    if answers.which:
        assert len(answers.decisions) <= min(len({id(each) for each in given}), len(given) // 2)


def test_decisions_that_all_differ_stand_in_order():
    given = [Decision(True, epoch=n) for n in range(600)]
    assert unpack_answers(pack(Answers.of(given))).in_order() == given
    assert unpack_answers(pack(Answers.of(given * 2))).in_order() == given * 2


def test_obligations_are_never_shared_since_whoever_fulfils_them_may_change_them():
    one = Decision(True, obligations=({"log": "all"},))
    first, second = unpack_answers(pack(Answers.of([one, one]))).in_order()
    first.obligations[0]["log"] = "nothing"
    assert second == one


def test_answers_that_name_a_decision_that_is_not_there_are_refused():
    with pytest.raises(BadMessage, match="`which` names a decision that is not there"):
        unpack_answers(pack(Answers([Decision(True)], which=b"\x00\x01"))).in_order()
