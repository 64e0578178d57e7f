"""A replica's answers are authentic to whoever asked, however many ask."""

from __future__ import annotations

import pytest

from authz import Identity
from authz.crypto.agreement import AgreementKey, AnswerMac
from authz.errors import InvalidKey
from bus.wire.answer_mac import unwrap
from pdp.replica.answer_authority import AnswerAuthority

PDP = Identity.generate()
ASKED = ("af.ask.any.default", b"question", b"answer")


def is_authentic(warrant: AnswerAuthority, asker: AgreementKey) -> bool:
    sender, tag, answer = unwrap(warrant.authenticate(asker.public, *ASKED))
    mac = AnswerMac.of_asker(asker, AgreementKey.of(PDP).public)
    return sender == PDP.public.raw and answer == b"answer" and mac.holds(tag, *ASKED)


def test_an_answer_is_authentic_to_its_asker_also_after_others_have_taken_its_place():
    warrant, first = AnswerAuthority(PDP, (), 0.0, askers=2), AgreementKey.generate()
    assert is_authentic(warrant, first)
    assert all(is_authentic(warrant, AgreementKey.generate()) for _ in range(5))
    assert is_authentic(warrant, first)
    assert len(warrant._macs) == 2


@pytest.mark.parametrize("key", [b"short", bytes(32)])
def test_what_is_no_askers_key_is_not_accepted(key):
    warrant = AnswerAuthority(PDP, (), 0.0)
    assert not warrant.accepts(key)
    assert warrant.accepts(AgreementKey.generate().public)
    with pytest.raises(InvalidKey):
        warrant.authenticate(key, *ASKED)
