import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz import Decision, Entity, Inference, Request
from bus.audit import AuditRecord, AuditTrail, Break, Followed, Head, Verified, read_record, verify_chain
from bus.audit.records import digest

ASKED = Request.of("alice", "/o", "read")
ALLOW = Decision(True, epoch=3, inferred=Inference("precise", ("1",), stale=True))


def chain(count, writer="pep-1"):
    trail = AuditTrail(writer)
    for n in range(count):
        trail.record(ASKED, ALLOW, float(n))
    return trail, trail.drain(99.0)


def test_an_unbroken_chain_verifies_to_its_head():
    trail, records = chain(5)
    verified = verify_chain(records, "pep-1")
    assert verified.broken is None
    assert verified.head == trail.head
    assert trail.head.sequence == 5


def test_a_record_tells_who_asked_what_and_how_it_was_answered():
    _, [record] = chain(1)
    decoded = msgspec.msgpack.decode(record, type=AuditRecord)
    assert (decoded.request, decoded.decision, decoded.at) == (ASKED, ALLOW, 0.0)
    assert decoded.decision.inferred.stale


def test_a_chain_can_be_verified_in_parts():
    trail, records = chain(6)
    first = verify_chain(records[:4], "pep-1")
    assert verify_chain(records[4:], "pep-1", first.head).head == trail.head


@given(st.integers(2, 8), st.data())
def test_the_first_break_is_named_whatever_is_left_out(count, data):
    _, records = chain(count)
    gone = data.draw(st.integers(0, count - 2))
    broken = verify_chain(records[:gone] + records[gone + 1 :], "pep-1").broken
    assert broken == Break(gone + 1, f"is missing: the next is number {gone + 2}")


@given(st.integers(2, 8), st.data())
def test_an_altered_record_is_noticed_at_itself_or_at_the_next(count, data):
    _, records = chain(count)
    at = data.draw(st.integers(0, count - 2))
    position = data.draw(st.integers(0, len(records[at]) - 1))
    altered = bytearray(records[at])
    altered[position] ^= data.draw(st.integers(1, 255))
    broken = verify_chain([*records[:at], bytes(altered), *records[at + 1 :]], "pep-1").broken
    assert broken is not None
    assert broken.sequence in (at + 1, at + 2)


def test_a_record_put_in_by_someone_without_the_chain_is_noticed():
    _, records = chain(3)
    forged = msgspec.msgpack.encode(AuditRecord("pep-1", 3, bytes(32), 5.0, ASKED, ALLOW))
    assert verify_chain([*records[:2], forged], "pep-1").broken.sequence == 3


def test_what_is_cut_off_at_the_end_shows_against_the_head():
    trail, records = chain(5)
    assert verify_chain(records[:3], "pep-1").head != trail.head


def test_another_writers_record_does_not_belong_here():
    _, records = chain(1, writer="pep-2")
    assert verify_chain(records, "pep-1").broken == Break(1, "is by `pep-2`, not by `pep-1`")


def test_a_record_delivered_twice_in_a_row_is_no_break_but_an_older_one_is():
    _, records = chain(3)
    assert verify_chain([records[0], records[0], *records[1:]], "pep-1").broken is None
    assert verify_chain([*records[:2], records[0]], "pep-1").broken.sequence == 3


def test_when_the_buffer_is_full_decisions_are_counted_and_the_count_is_chained():
    trail = AuditTrail("pep-1", limit=3)
    for n in range(10):
        trail.record(ASKED, ALLOW, float(n))
    records = trail.drain(11.0)
    verified = verify_chain(records, "pep-1")
    assert len(records) == 4
    assert verified.broken is None
    assert verified.dropped == trail.dropped == 7
    trail.record(ASKED, ALLOW, 12.0)
    assert verify_chain(trail.drain(12.0), "pep-1", verified.head).dropped == 0


@pytest.mark.parametrize("junk", [b"", b"\xc1", b"\x90", msgspec.msgpack.encode({"a": 1})])
def test_what_cannot_be_read_is_a_break(junk):
    assert verify_chain([junk], "pep-1").broken == Break(1, "is unreadable")


def test_an_empty_chain_stands_at_its_start():
    assert verify_chain([], "pep-1").head == Head()


def test_a_part_can_be_drained_and_drops_are_reported_when_nothing_waits_any_more():
    trail = AuditTrail("pep-1", limit=3)
    for n in range(5):
        trail.record(ASKED, ALLOW, float(n))
    first = trail.drain(99.0, most=2)
    rest = trail.drain(99.0, most=2)
    assert [len(first), len(rest), len(trail)] == [2, 2, 0]
    verified = verify_chain(first + rest, "pep-1")
    assert (verified.broken, verified.head, verified.dropped) == (None, trail.head, 2)


def test_a_decision_that_cannot_be_encoded_any_more_is_counted_as_dropped():
    trail = AuditTrail("pep-1")
    attributes: dict[str, object] = {}
    trail.record(Request.of(Entity("a", attributes), "/o", "read"), ALLOW, 0.0)
    trail.record(ASKED, ALLOW, 0.0)
    attributes["x"] = object()
    verified = verify_chain(trail.drain(1.0), "pep-1")
    assert (verified.broken, verified.head.sequence, verified.dropped) == (None, 2, 1)


def test_a_gap_stands_in_the_chain_where_the_decisions_are_missing():
    trail = AuditTrail("pep-1", limit=2)
    for n in range(4):
        trail.record(ASKED, ALLOW, float(n))
    assert (trail.noted, trail.chained) == (4, 0)
    before = trail.drain(4.0, most=1)
    trail.record(ASKED, ALLOW, 5.0)
    after = trail.drain(6.0)
    records = [read_record(each) for each in before + after]
    assert [each.dropped for each in records] == [0, 0, 2, 0]
    assert (trail.noted, trail.chained) == (5, 5)
    assert verify_chain(before + after, "pep-1").dropped == 2


def test_a_record_names_the_release_that_was_followed_when_it_was_noted_if_that_decided():
    trail = AuditTrail("pep-1")
    trail.record(ASKED, ALLOW, 0.0)  # before anything was followed
    for epoch, name in ((3, b"first"), (3, b"second"), (4, b"third")):
        trail.followed = Followed(epoch, name)
        trail.record(ASKED, ALLOW, 1.0)
    records = trail.drain(2.0)
    assert [read_record(each).release for each in records] == [b"", b"first", b"second", b""]
    assert verify_chain(records, "pep-1").broken is None


def test_a_record_of_before_releases_were_named_still_reads_and_verifies():
    _, [record] = chain(1)
    *fields, _ = msgspec.msgpack.decode(record)
    old = msgspec.msgpack.encode(fields)
    assert (read_record(old).decision, read_record(old).release) == (ALLOW, b"")
    assert verify_chain([old], "pep-1") == Verified(Head(1, digest(old)))
