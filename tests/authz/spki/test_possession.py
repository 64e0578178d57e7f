"""The certificate loop: a chain is of use only to whoever holds its last key."""

from __future__ import annotations

import pytest

from authz.errors import InvalidSignature
from authz.spki import Capability, InvalidCapability, parse_authority
from authz.spki.possession import Challenge, close, prove
from tests.authz.spki.generators import KEYS

OWNER, HOLDER, THIEF, BROKER, OTHER = KEYS[:5]
CAPABILITY = Capability(OWNER.public, HOLDER.public, False, parse_authority("type: a.B\naction: *"))
CHALLENGE = Challenge(BROKER.public, bytes(32))


def test_the_subject_closes_the_loop():
    close(CAPABILITY, CHALLENGE, prove(CHALLENGE, HOLDER))


def test_a_stolen_chain_is_of_no_use_without_its_key():
    with pytest.raises(InvalidSignature):
        close(CAPABILITY, CHALLENGE, prove(CHALLENGE, THIEF))


@pytest.mark.parametrize(
    "challenge", [Challenge(BROKER.public, b"\1" * 32), Challenge(OTHER.public, bytes(32))]
)
def test_a_proof_serves_one_challenge_of_one_verifier(challenge):
    with pytest.raises(InvalidSignature):
        close(CAPABILITY, challenge, prove(CHALLENGE, HOLDER))


def test_a_challenge_is_long_enough_never_to_be_met_again():
    with pytest.raises(InvalidCapability, match="32 random bytes"):
        Challenge(BROKER.public, b"short")
