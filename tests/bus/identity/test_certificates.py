"""TLS certificates over principals' own keys."""

from __future__ import annotations

import pytest
from cryptography import x509

from authz import Identity
from bus.errors import BadMessage
from bus.identity.certificates import Lifetime, Purpose, Subject, certified_hosts, certified_key, certify

NOW = 1_800_000_000.0
CA, KEY = Identity.generate(), Identity.generate()


def test_a_certificate_is_about_the_key_it_was_made_for():
    hosts = ("127.0.0.1", "fd00::7", "nats.example")
    pem = certify(Subject("server", KEY.public, hosts, Purpose.SERVER), CA, "domain", Lifetime(NOW, 60))
    assert certified_key(pem) == KEY.public
    assert certified_hosts(pem) == hosts


def test_a_member_is_no_host():
    assert certified_hosts(certify(Subject("x", KEY.public), CA, "domain", Lifetime(NOW, 60))) == ()


@pytest.mark.parametrize("below", [0, None])
@pytest.mark.parametrize("purpose", Purpose)
def test_it_says_what_it_is_for_and_an_authority_says_so_of_all_below_it(purpose, below):
    subject = Subject("x", KEY.public, (), purpose, below)
    certificate = x509.load_pem_x509_certificate(certify(subject, CA, "domain", Lifetime(NOW, 60)).encode())
    uses = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert tuple(uses) == purpose.value


def test_it_lasts_as_long_as_it_was_given():
    pem = certify(Subject("client", KEY.public), CA, "domain", Lifetime(NOW, 60))
    certificate = x509.load_pem_x509_certificate(pem.encode())
    assert certificate.not_valid_after_utc.timestamp() == NOW + 60
    assert certificate.not_valid_before_utc.timestamp() <= NOW


def test_only_authorities_may_sign_others():
    authority, client = (
        x509.load_pem_x509_certificate(
            certify(Subject("x", KEY.public, below=each), CA, "domain", Lifetime(NOW, 60)).encode()
        )
        for each in (0, None)
    )
    limits = [
        each.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        for each in (authority, client)
    ]
    assert limits == [True, False]
    with pytest.raises(ValueError, match=r"subject|issuer"):
        client.verify_directly_issued_by(authority)


@pytest.mark.parametrize(
    "pem", ["", "junk", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
)
def test_junk_is_refused(pem):
    for read in (certified_key, certified_hosts):
        with pytest.raises(BadMessage):
            read(pem)
