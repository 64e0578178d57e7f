"""Appointment certificates: what makes one count."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import structs

from authz import Identity
from authz.errors import InvalidSignature
from pdp.oasis import Instance
from pdp.oasis.errors import InvalidAppointment
from pdp.sessions import BEARER, Appointment

COURT, OTHER = (Identity.from_seed(seed * 32) for seed in (b"c", b"o"))
TRUSTED = frozenset({str(COURT.public)})
ORDER = Appointment(
    "", "7", "courtOrder", ("case1", "LN07"), "smith", 10.0, 20.0, "judge", "court.judge"
).signed(COURT)


def test_a_signed_certificate_counts_for_its_holder_and_survives_the_wire():
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(ORDER), type=Appointment)
    again.check("smith", TRUSTED)
    assert again == ORDER
    assert again.content == Instance("courtOrder", ("case1", "LN07"))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("serial", "8"),
        ("name", "warrant"),
        ("params", ("case1", "LN08")),
        ("holder", "jones"),
        ("holder", BEARER),
        ("not_before", 0.0),
        ("expires", None),
        ("appointer", "someone"),
        ("role", "court.clerk"),
        ("session", "s1"),
    ],
)
def test_whoever_changes_any_field_breaks_the_signature(field, value):
    with pytest.raises(InvalidSignature):
        structs.replace(ORDER, **{field: value}).verify()


def test_a_certificate_by_a_key_that_is_not_trusted_for_it_does_not_count():
    with pytest.raises(InvalidAppointment, match="no rule trusts"):
        ORDER.signed(OTHER).check("smith", TRUSTED)


def test_a_certificate_under_another_issuers_name_does_not_count():
    with pytest.raises(InvalidSignature):
        structs.replace(ORDER.signed(OTHER), issuer=str(COURT.public)).check("smith", TRUSTED)
    with pytest.raises(InvalidSignature):
        structs.replace(ORDER, issuer="nobody").verify()


def test_a_certificate_counts_for_nobody_else_unless_it_is_for_the_bearer():
    with pytest.raises(InvalidAppointment, match="was given to `smith`"):
        ORDER.check("jones", TRUSTED)
    structs.replace(ORDER, holder=BEARER).signed(COURT).check("jones", TRUSTED)


def test_parameters_other_than_strings_and_integers_do_not_count():
    with pytest.raises(InvalidAppointment, match="whole numbers"):
        structs.replace(ORDER, params=(True,)).signed(COURT).check("smith", TRUSTED)


@pytest.mark.parametrize(("now", "valid"), [(9.9, False), (10.0, True), (19.9, True), (20.0, False)])
def test_it_counts_from_its_beginning_until_just_before_its_end(now, valid):
    assert ORDER.valid_at(now) is valid
    assert structs.replace(ORDER, expires=None).valid_at(1e12)
