"""A recorded decision is vouched for only if a PDP that may make it has signed it."""

from __future__ import annotations

import msgspec
import pytest

from authz import Decision, Identity, Inference, Reason, Request
from authz.authority.introduction import Introduction
from authz.authority.statement import Statement, decision_hash
from authz.spki import Capability, Validity, parse_authority
from bus.audit import AuditRecord, Vouched, Vouchers

ROOT, PDP, EVE = (Identity.generate() for _ in range(3))
SALES, HR = Request.of("ann", "/sales/q1", "read"), Request.of("ann", "/hr/pay", "read")
ALLOW = Decision(True, epoch=3)


def introduction(issuer: Identity = ROOT, holder: Identity = PDP, objects: str = "/sales/*") -> bytes:
    authority = parse_authority(f"object: {objects}\naction: decide")
    chain = Capability(issuer.public, holder.public, False, authority, Validity(0, 1000)).sign(issuer)
    return Introduction.of(holder, (chain,), 0.0).encode()


def signed(*said: tuple[Request, Decision], by: Identity = PDP, **altered) -> AuditRecord:
    leaves = tuple(decision_hash(*each) for each in said)
    statement, _ = Statement.sign(by, "default", 100.0, leaves)
    vouched = {"statement": statement, "leaves": leaves, "introduction": introduction()} | altered
    return AuditRecord("pdp-1", 1, bytes(32), 100.0, vouched=Vouched(**vouched))


def recorded(request: Request, decision: Decision, number: int = 1) -> AuditRecord:
    return AuditRecord("pep-1", number, bytes(32), 100.0, request, decision)


def outcome(*records: AuditRecord) -> tuple[int, dict[str, list[int]], int]:
    vouchers = Vouchers([ROOT.public])
    for record in records:
        vouchers.take(record)
    return vouchers.vouched, vouchers.missing, vouchers.refused


@pytest.mark.parametrize("order", [1, -1])
def test_a_decision_is_vouched_for_whether_its_statement_comes_first_or_last(order):
    records = [recorded(SALES, ALLOW), recorded(SALES, ALLOW, 2), signed((SALES, ALLOW))][::order]
    assert outcome(*records) == (2, {}, 0)


@pytest.mark.parametrize(
    "statement",
    [
        signed((SALES, Decision(False, epoch=3))),
        signed((HR, ALLOW)),
        signed((SALES, msgspec.structs.replace(ALLOW, epoch=4))),
    ],
)
def test_a_decision_that_was_recorded_otherwise_than_signed_is_missing(statement):
    assert outcome(recorded(SALES, ALLOW), statement) == (0, {"pep-1": [1]}, 0)


@pytest.mark.parametrize(
    "statement",
    [
        signed((SALES, ALLOW), by=EVE),
        signed((SALES, ALLOW), introduction=introduction(issuer=EVE)),
        signed((SALES, ALLOW), by=EVE, introduction=introduction(holder=EVE, issuer=EVE)),
        signed((SALES, ALLOW), introduction=b"junk"),
        signed((HR, ALLOW), leaves=(decision_hash(SALES, ALLOW),)),
        signed((SALES, ALLOW), leaves=(decision_hash(SALES, ALLOW),) * 2),
    ],
)
def test_a_statement_that_does_not_hold_vouches_for_nothing(statement):
    assert outcome(recorded(SALES, ALLOW), statement) == (0, {"pep-1": [1]}, 1)


def test_a_signature_that_was_made_for_something_else_does_not_hold():
    statement, _ = Statement.sign(PDP, "default", 100.0, [decision_hash(HR, ALLOW)])
    forged = signed((SALES, ALLOW))
    held = forged.vouched.statement
    assert outcome(
        recorded(SALES, ALLOW),
        signed((SALES, ALLOW), statement=msgspec.structs.replace(held, signature=statement.signature)),
    ) == (0, {"pep-1": [1]}, 1)


def test_a_pdp_vouches_only_for_what_it_may_decide():
    assert outcome(recorded(HR, ALLOW), signed((HR, ALLOW))) == (0, {"pep-1": [1]}, 0)


@pytest.mark.parametrize("order", [1, -1])
def test_it_is_enough_that_one_of_those_who_signed_it_may_decide_it(order):
    other = signed((SALES, ALLOW), by=EVE, introduction=introduction(holder=EVE, objects="/hr/*"))
    statements = [signed((SALES, ALLOW)), other][::order]
    assert outcome(*statements, recorded(SALES, ALLOW)) == (1, {}, 0)
    assert outcome(recorded(SALES, ALLOW), *statements) == (1, {}, 0)


def test_what_no_pdp_is_said_to_have_decided_needs_no_voucher():
    inferred = msgspec.structs.replace(ALLOW, inferred=Inference("precise"))
    assert outcome(recorded(SALES, inferred), recorded(SALES, Decision(False, Reason.TIMEOUT))) == (0, {}, 0)


def test_a_masked_record_counts_by_the_hash_beside_it_and_is_counted():
    vouchers = Vouchers([ROOT.public])
    vouchers.take(signed((SALES, ALLOW)))
    shown = Request.of("ann", "/sales/q1", "read", {"note": "***"})
    for number, leaf in enumerate((decision_hash(SALES, ALLOW), bytes(32)), start=1):
        vouchers.take(msgspec.structs.replace(recorded(shown, ALLOW, number), masked=leaf))
    assert (vouchers.vouched, vouchers.masked, vouchers.missing) == (1, 2, {"pep-1": [2]})
