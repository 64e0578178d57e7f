"""The verifier: it remembers reductions, and what it remembers never outlives validity or revocation."""

from __future__ import annotations

import pytest

from authz.errors import InvalidSignature
from authz.spki import (
    Capability,
    Certificate,
    ChainRefused,
    Fault,
    Kind,
    Notice,
    Owners,
    Resource,
    Validity,
    Verifier,
    encode_chain,
    parse_authority,
)
from tests.authz.spki.generators import KEYS

OWNER, DOMAIN, CLIENT = KEYS[:3]
AUTHORITY = parse_authority("type: a.B\naction: publish")
OWNERS = Owners([(Resource(Kind.TYPE, "a.*"), OWNER.public)])


def certificate(issuer, subject, end=2000) -> Certificate:
    return Capability(issuer.public, subject.public, True, AUTHORITY, Validity(1000, end)).sign(issuer)


LINKS = [certificate(OWNER, DOMAIN), certificate(DOMAIN, CLIENT)]
CHAIN = encode_chain(LINKS)


def test_a_chain_is_opened_once_and_remembered(monkeypatch):
    verifier = Verifier(OWNERS)
    first = verifier.verify(CHAIN, 1500)
    monkeypatch.setattr(Certificate, "open", lambda _: pytest.fail("a known chain was verified again"))
    assert verifier.verify(CHAIN, 1600) is first


def test_a_remembered_chain_expires():
    verifier = Verifier(OWNERS)
    verifier.verify(CHAIN, 1500)
    with pytest.raises(ChainRefused) as caught:
        verifier.verify(CHAIN, 2000)
    assert caught.value.fault is Fault.EXPIRED


@pytest.mark.parametrize(("revoker", "number"), [(OWNER, 1), (DOMAIN, 2)])
def test_a_remembered_chain_is_revoked_at_once(revoker, number):
    verifier = Verifier(OWNERS)
    verifier.verify(CHAIN, 1500)
    verifier.accept(Notice.event(revoker, LINKS[number - 1], 1500), 1500)
    with pytest.raises(ChainRefused) as caught:
        verifier.verify(CHAIN, 1500)
    assert (caught.value.link, caught.value.fault) == (number, Fault.REVOKED)


def test_a_forged_signature_is_not_taken_for_the_chain_it_was_copied_from():
    verifier = Verifier(OWNERS)
    verifier.verify(CHAIN, 1500)
    forged = encode_chain([LINKS[0], Certificate(LINKS[1].body, bytes(64))])
    with pytest.raises(ChainRefused) as caught:
        verifier.verify(forged, 1500)
    assert (caught.value.link, caught.value.fault) == (2, Fault.BAD_SIGNATURE)


def test_a_chain_once_refused_is_not_remembered_as_sound():
    verifier = Verifier(OWNERS)
    for _ in range(2):
        with pytest.raises(ChainRefused):
            verifier.verify(CHAIN, 500)
    assert verifier.verify(CHAIN, 1500).capability.subject == CLIENT.public


def test_memory_is_bounded_and_the_longest_unused_goes_first(monkeypatch):
    verifier = Verifier(OWNERS, size=2)
    chains = [encode_chain([certificate(OWNER, key)]) for key in KEYS[1:4]]
    for chain in chains:
        verifier.verify(chain, 1500)
    opened = []
    genuine = Certificate.open
    monkeypatch.setattr(Certificate, "open", lambda self: opened.append(self) or genuine(self))
    verifier.verify(chains[2], 1500)
    verifier.verify(chains[1], 1500)
    assert not opened
    verifier.verify(chains[0], 1500)
    assert len(opened) == 1


def test_expired_revocations_are_forgotten_for_want_of_room_and_forged_ones_never_heard(monkeypatch):
    monkeypatch.setattr("authz.spki.revocation.KEPT", 0)
    verifier = Verifier(OWNERS)
    verifier.accept(Notice.event(DOMAIN, LINKS[1], 1500), 2500)
    assert not verifier.revocations.heard_of(DOMAIN.public)
    with pytest.raises(InvalidSignature):
        verifier.accept(Notice(OWNER.public, 1, (), 1, bytes(64)), 1500)
