"""Who is let in, decided without a server: the certificate loop, chains, hours, rates, and how long it lasts."""

from __future__ import annotations

import base64
import dataclasses
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from authz import Identity
from authz.spki import (
    Capability,
    ChainRefused,
    Kind,
    Notice,
    Owners,
    Resource,
    Validity,
    Verifier,
    encode_chain,
    parse_authority,
)
from authz.spki.validity import Recheck
from bus.identity.certificates import Lifetime, Subject, certify
from bus.identity.credentials import Presented, connection_key
from bus.server.callout_tokens import Arrival
from bus.wire.subjects import ANSWERS
from pdp.access import AccessControl, AccessRules, NotAdmitted
from pdp.access.control import read_label, write_label

NOW = 1_800_000_000.0  # a Friday, 08:00 UTC
DOMAIN, SERVICE, CLIENT, OTHER = (Identity.generate() for _ in range(4))
CONNECT = "network: shop\naction: connect"


def capability(issuer, subject, text=CONNECT, *, delegate=False, start=0, end=int(NOW) + 600, rechecks=()):
    validity = Validity(start, end, rechecks)
    return Capability(issuer.public, subject.public, delegate, parse_authority(text), validity).sign(issuer)


BLANKET = capability(DOMAIN, SERVICE, "resource: *\naction: *", delegate=True, end=None)


def control(*holdings, rules=AccessRules(needs_certificate=False)):
    owners = Owners([(Resource(Kind.ANY, "*"), DOMAIN.public)])
    return AccessControl(Verifier(owners), SERVICE.public, holdings or [(BLANKET,)], rules)


def arrival(
    *chain,
    signer=CLIENT,
    key=CLIENT,
    holder=CLIENT,
    nonce="nonce",
    signed="nonce",
    token=None,
    certificate="",
):
    signature = base64.b64encode(connection_key(signer).sign(signed.encode())).decode()
    sent = Presented.of(holder, encode_chain(chain)).encode() if token is None else token
    connection = connection_key(key).public
    return Arrival("N1", 7, "U", str(connection), signature, nonce, sent, certificate=certificate)


def refusal(*chain, at=NOW, by=None, **options) -> str:
    with pytest.raises(NotAdmitted) as raised:
        (by or control()).admit(arrival(*chain, **options), at)
    return str(raised.value)


class TestTheLoop:
    def test_whoever_proves_its_key_is_let_in_by_its_chain(self):
        admitted = control().admit(arrival(capability(SERVICE, CLIENT)), NOW)
        assert admitted.key == CLIENT.public
        assert "af.ask.*.shop.>" in admitted.permissions.publish

    def test_a_stolen_chain_is_worth_nothing_without_its_key(self):
        stolen = capability(SERVICE, CLIENT)
        assert "signature is not valid" in refusal(stolen, signer=OTHER)
        assert "empowers" in refusal(stolen, signer=OTHER, key=OTHER, holder=OTHER)

    def test_a_connection_key_speaks_for_nobody_who_has_not_bound_it(self):
        """Whoever copied what another presented has the binding of that one's connection key, and no other."""
        chain = capability(SERVICE, CLIENT)
        assert "signature is not valid" in refusal(chain, signer=OTHER, key=OTHER)
        forged = replace(Presented.of(OTHER, encode_chain([chain])), holder=CLIENT.public.raw)
        assert "signature is not valid" in refusal(signer=OTHER, key=OTHER, token=forged.encode())

    def test_nobody_is_called_by_a_key_that_it_did_not_prove(self):
        said = refusal(capability(SERVICE, CLIENT), signer=OTHER)
        assert not [key for key in (CLIENT, connection_key(CLIENT)) if str(key.public) in said]

    @pytest.mark.parametrize(
        "claimed", [str(OTHER.public), "U\nWARNING: `boss` is let in", ""], ids=["another's", "junk", "none"]
    )
    def test_a_key_that_is_claimed_and_not_proved_is_not_named(self, claimed):
        """Whoever reads the log would blame its holder, or read there what a stranger wrote."""
        with pytest.raises(NotAdmitted) as raised:
            control().admit(dataclasses.replace(arrival(capability(SERVICE, CLIENT)), key=claimed), NOW)
        assert str(raised.value) == "somebody who proves no key is refused: the signature is not valid"

    def test_a_proof_for_another_challenge_does_not_count(self):
        assert "signature is not valid" in refusal(capability(SERVICE, CLIENT), signed="another")

    def test_without_a_challenge_nothing_is_proved(self):
        assert "signature is not valid" in refusal(capability(SERVICE, CLIENT), nonce="", signed="")

    def test_the_proof_may_be_written_in_either_alphabet(self):
        given = arrival(capability(SERVICE, CLIENT))
        raw = base64.b64decode(given.signature)
        url = base64.urlsafe_b64encode(raw).decode().rstrip("=")
        fields = {name: getattr(given, name) for name in Arrival.__slots__} | {"signature": url}
        assert control().admit(Arrival(**fields), NOW).key == CLIENT.public

    def test_the_link_must_be_certified_for_the_same_key(self):
        strict = control(rules=AccessRules())
        lifetime = Lifetime(NOW, 600)
        own, foreign = (certify(Subject("c", each.public), DOMAIN, "d", lifetime) for each in (CLIENT, OTHER))
        chain = capability(SERVICE, CLIENT)
        assert strict.admit(arrival(chain, certificate=own), NOW)
        for certificate in (foreign, "", "junk"):
            assert "refused" in refusal(chain, by=strict, certificate=certificate)


class TestChains:
    def test_nobody_is_let_in_without_one(self):
        assert "refused" in refusal(token="")
        assert "refused" in refusal()

    def test_expired(self):
        assert "expired" in refusal(capability(SERVICE, CLIENT, end=int(NOW) - 1))

    def test_not_yet_valid(self):
        assert "not valid before" in refusal(capability(SERVICE, CLIENT, start=int(NOW) + 5))

    def test_from_a_key_that_owns_nothing(self):
        assert "owns nothing here" in refusal(capability(OTHER, CLIENT))

    def test_widened(self):
        narrow = capability(DOMAIN, SERVICE, "network: shop\naction: connect", delegate=True)
        wide = capability(SERVICE, CLIENT, "network: *\naction: *")
        admitted = control((narrow,)).admit(arrival(wide), NOW)
        assert not [each for each in admitted.permissions.publish if "_R_" in each or ".ask.*.*" in each]
        other = capability(SERVICE, CLIENT, "network: bank\naction: connect")
        assert "grants nothing that its issuer" in refusal(other, by=control((narrow,)))

    def test_passed_on_by_someone_who_may_not(self):
        last = capability(OTHER, CLIENT)
        assert "may not pass on" in refusal(capability(SERVICE, OTHER), last)

    def test_cyclic(self):
        there = capability(SERVICE, OTHER, delegate=True)
        back = capability(OTHER, SERVICE, delegate=True)
        assert "leads back" in refusal(there, back, capability(SERVICE, CLIENT))

    def test_revoked(self):
        by, chain = control(), capability(SERVICE, CLIENT)
        by.accept(Notice.event(SERVICE, chain, int(NOW)), NOW)
        assert "revoked" in refusal(chain, by=by)

    def test_a_chain_of_ten_thousand_links_is_refused_at_a_glance(self):
        link = capability(SERVICE, CLIENT)
        assert "malformed" in refusal(*[link] * 10_000)
        keys = [SERVICE, *(Identity.generate() for _ in range(100)), CLIENT]
        chain = [capability(a, b, delegate=True) for a, b in pairwise(keys)]
        assert "at most 32 are followed" in refusal(*chain)

    @settings(max_examples=60)
    @given(st.binary(max_size=400))
    def test_junk_in_place_of_a_chain_is_refused(self, junk):
        refusal(token=base64.b64encode(junk).decode())
        refusal(token=Presented.of(CLIENT, junk).encode())

    @given(st.text(max_size=60))
    def test_junk_in_place_of_a_token_is_refused(self, junk):
        refusal(token=junk)

    @settings(max_examples=60)
    @given(st.data())
    def test_a_certificate_with_a_flipped_bit_is_refused(self, data):
        token = Presented.of(CLIENT, encode_chain([capability(SERVICE, CLIENT)])).encode()
        good = bytearray(base64.b64decode(token))
        place = data.draw(st.integers(0, len(good) - 1))
        good[place] ^= 1 << data.draw(st.integers(0, 7))
        refusal(token=base64.b64encode(good).decode())


class TestBlanket:
    def test_what_the_service_is_granted_later_reaches_its_brokers(self):
        broker = capability(SERVICE, CLIENT, "resource: *\naction: *")
        first = capability(DOMAIN, SERVICE, "network: shop\naction: connect", delegate=True)
        later = capability(DOMAIN, SERVICE, "network: bank\naction: connect", delegate=True)
        before = control((first,)).admit(arrival(broker), NOW)
        after = control((first,), (later,)).admit(arrival(broker), NOW)
        assert "af.ask.*.bank.>" not in before.permissions.publish
        assert {"af.ask.*.shop.>", "af.ask.*.bank.>"} <= after.permissions.publish

    def test_one_holding_that_ended_does_not_take_the_others_along(self):
        ended = capability(DOMAIN, SERVICE, "network: bank\naction: *", delegate=True, end=int(NOW) - 1)
        broker = capability(SERVICE, CLIENT, "resource: *\naction: *")
        assert control((ended,), (BLANKET,)).admit(arrival(broker), NOW)

    def test_a_service_that_holds_nothing_lets_nobody_in(self):
        by = control()
        by.holdings = ()
        assert "holds nothing yet" in refusal(capability(SERVICE, CLIENT), by=by)


class TestHowLong:
    def test_no_longer_than_the_capability(self):
        assert control().admit(arrival(capability(SERVICE, CLIENT)), NOW).until == NOW + 600

    def test_no_longer_than_a_session(self):
        long = capability(SERVICE, CLIENT, end=None)
        by = control(rules=AccessRules(session_seconds=60, needs_certificate=False))
        assert by.admit(arrival(long), NOW).until == NOW + 60

    def test_no_longer_than_the_news_of_revocations_is_fresh(self):
        online = capability(SERVICE, CLIENT, rechecks=(Recheck(SERVICE.public, 100),))
        by = control()
        assert "needs a revocation list" in refusal(online, by=by)
        by.accept(Notice.first(SERVICE, int(NOW) - 40), NOW)
        assert by.admit(arrival(online), NOW).until == NOW + 60

    def test_until_the_hour_at_which_it_may_no_longer(self):
        hours = capability(SERVICE, CLIENT, f"{CONNECT}\nwhen: 07:00-08:05")
        assert control().admit(arrival(hours), NOW).until == NOW + 300
        assert "lets it connect now" in refusal(hours, at=NOW + 301)

    def test_until_the_hour_at_which_it_may_do_more(self):
        more = capability(SERVICE, CLIENT, f"{CONNECT}\nobject: *\naction: decide\nwhen: 08:03-09:00")
        admitted = control().admit(arrival(more), NOW)
        assert ANSWERS not in admitted.permissions.publish
        assert admitted.until == NOW + 180
        assert ANSWERS in control().admit(arrival(more), NOW + 180).permissions.publish


def test_connecting_uses_up_a_rate():
    twice = capability(SERVICE, CLIENT, f"{CONNECT}\nrate: 2 per minute")
    by = control()
    for _ in range(2):
        by.admit(arrival(twice), NOW)
    assert "lets it connect now" in refusal(twice, by=by)
    assert by.admit(arrival(twice), NOW + 60)


@given(st.lists(st.binary(min_size=32, max_size=32), max_size=4))
def test_a_label_reads_back(links):
    assert read_label(write_label(CLIENT.public, links)) == (str(CLIENT.public), frozenset(links))


class TestRevokers:
    def test_are_those_who_could_take_back_something_of_a_chain_from_an_owner(self):
        checked = Identity.generate()
        last = capability(OTHER, CLIENT, rechecks=(Recheck(checked.public, 100),))
        chain, by = [capability(SERVICE, OTHER, delegate=True), last], control()
        by.accept(Notice.first(checked, int(NOW)), NOW)
        for key in (SERVICE, OTHER, checked):
            by.check_revoker(key.public, encode_chain(chain), NOW)
        by.check_revoker(OTHER.public, encode_chain(chain[:1]), NOW)
        with pytest.raises(ChainRefused, match="nothing that"):
            by.check_revoker(CLIENT.public, encode_chain(chain), NOW)
        made_up = Identity.generate()
        with pytest.raises(ChainRefused, match="owns nothing here"):
            by.check_revoker(made_up.public, encode_chain([capability(made_up, CLIENT)]), NOW)

    def test_roots_need_no_chain(self):
        by = AccessControl(control().verifier, SERVICE.public, [(BLANKET,)], trusted=[OTHER.public])
        assert [by.is_root(key.public) for key in (DOMAIN, SERVICE, OTHER, CLIENT)] == [
            True,
            True,
            True,
            False,
        ]
