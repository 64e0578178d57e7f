"""TLS certificates over principals' own keys."""

from __future__ import annotations

import pytest
from cryptography import x509

from authz import Identity
from bus.certificates import Lifetime, Subject, certified_key, certify
from bus.errors import BadMessage

NOW = 1_800_000_000.0
CA, KEY = Identity.generate(), Identity.generate()


def test_a_certificate_is_about_the_key_it_was_made_for():
    pem = certify(
        Subject("server", KEY.public, ("127.0.0.1", "nats.example")), CA, "domain", Lifetime(NOW, 60)
    )
    assert certified_key(pem) == KEY.public
    names = x509.load_pem_x509_certificate(pem.encode()).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    assert names.value.get_values_for_type(x509.DNSName) == ["nats.example"]


def test_it_lasts_as_long_as_it_was_given():
    pem = certify(Subject("client", KEY.public), CA, "domain", Lifetime(NOW, 60))
    certificate = x509.load_pem_x509_certificate(pem.encode())
    assert certificate.not_valid_after_utc.timestamp() == NOW + 60
    assert certificate.not_valid_before_utc.timestamp() <= NOW


def test_only_authorities_may_sign_others():
    authority, client = (
        x509.load_pem_x509_certificate(
            certify(Subject("x", KEY.public, authority=each), CA, "domain", Lifetime(NOW, 60)).encode()
        )
        for each in (True, False)
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
    with pytest.raises(BadMessage):
        certified_key(pem)
