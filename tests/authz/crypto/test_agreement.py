"""A tag holds for one pair of parties, one subject, one question and one answer, and for nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz import Identity
from authz.crypto.agreement import AgreementKey, AnswerMac
from authz.errors import InvalidKey

PEP, OTHER_PEP = AgreementKey.generate(), AgreementKey.generate()
PDP = Identity.generate()
ASKED = ("af.ask.any.default", b"may ann read?", b"yes")
TAG = AnswerMac.of_decider(AgreementKey.of(PDP), PEP.public).tag(*ASKED)


def test_both_parties_compute_the_same_tag():
    assert AnswerMac.of_asker(PEP, AgreementKey.of(PDP).public).holds(TAG, *ASKED)


def test_the_agreement_key_of_an_identity_is_always_the_same_and_not_the_identity_itself():
    again = Identity.from_pem(PDP.to_pem())
    assert AgreementKey.of(again).public == AgreementKey.of(PDP).public != PDP.public.raw
    assert AgreementKey.of(Identity.generate()).public != AgreementKey.of(PDP).public


def test_no_other_party_can_make_or_check_it():
    decider = AgreementKey.of(PDP).public
    assert not AnswerMac.of_asker(OTHER_PEP, decider).holds(TAG, *ASKED)
    impostor = AnswerMac.of_decider(AgreementKey.generate(), PEP.public)
    assert not AnswerMac.of_asker(PEP, decider).holds(impostor.tag(*ASKED), *ASKED)


def test_an_asker_cannot_reflect_a_tag_by_posing_as_decider():
    one, two = AgreementKey.generate(), AgreementKey.generate()
    assert AnswerMac.of_asker(one, two.public).tag(*ASKED) != AnswerMac.of_decider(one, two.public).tag(
        *ASKED
    )


@given(st.text(max_size=3), st.binary(max_size=3), st.binary(max_size=3))
def test_a_tag_fits_nothing_that_was_cut_elsewhere(subject, question, answer):
    mac = AnswerMac(bytes(32))
    asked = ("ab", b"c", b"d")
    assert mac.holds(mac.tag(*asked), subject, question, answer) == ((subject, question, answer) == asked)


@pytest.mark.parametrize("key", [b"", bytes(31), bytes(32), b"\1" + bytes(31)])
def test_what_is_no_point_or_one_that_fixes_the_secret_is_refused(key):
    with pytest.raises(InvalidKey, match="Curve25519"):
        PEP.shared(key)


def test_nothing_private_shows():
    assert PEP.public.hex() in repr(PEP)
    assert PDP.derive("agreement").hex() not in repr(AgreementKey.of(PDP))
