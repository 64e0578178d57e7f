"""Keys in the text form of NATS, kept in encrypted files, and what they sign."""

from __future__ import annotations

import base64
import binascii

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from authz import Identity, PublicKey
from authz.errors import InvalidKey, InvalidSignature

SEED = bytes(range(32))


class TestText:
    @given(st.binary(min_size=32, max_size=32))
    def test_every_key_reads_back_from_its_text(self, raw):
        text = str(PublicKey(raw))
        assert len(text) == 56
        assert text[0] == "U"
        assert PublicKey.parse(text).raw == raw

    @given(
        st.binary(min_size=32, max_size=32),
        st.integers(0, 55),
        st.sampled_from("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"),
    )
    def test_no_single_typing_error_goes_unnoticed(self, raw, place, letter):
        text = str(PublicKey(raw))
        wrong = text[:place] + letter + text[place + 1 :]
        if wrong != text:
            with pytest.raises(InvalidKey):
                PublicKey.parse(wrong)

    def test_a_wrong_checksum_is_said_to_be_one(self):
        text = str(Identity.from_seed(SEED).public)
        wrong = text[:20] + ("A" if text[20] != "A" else "B") + text[21:]
        with pytest.raises(InvalidKey, match=r"its checksum does not fit \(a typing error\?\)"):
            PublicKey.parse(wrong)

    @pytest.mark.parametrize("text", ["", "U", "not base32!", "é" * 56, "A" * 56, "u" * 56, "U" * 1000])
    def test_what_is_no_key_is_refused(self, text):
        with pytest.raises(InvalidKey, match="is not a public key"):
            PublicKey.parse(text)

    def test_a_key_of_another_kind_is_refused(self):
        """A is an account, N a server: only users are principals here."""
        body = bytes([0]) + SEED
        text = base64.b32encode(body + binascii.crc_hqx(body, 0).to_bytes(2, "little")).decode().rstrip("=")
        assert text[0] == "A"
        with pytest.raises(InvalidKey, match="must begin with U"):
            PublicKey.parse(text)

    @pytest.mark.parametrize("size", [0, 31, 33])
    def test_raw_keys_and_seeds_have_32_bytes(self, size):
        with pytest.raises(InvalidKey, match=f"has 32 bytes, not {size}"):
            PublicKey(bytes(size))
        with pytest.raises(InvalidKey, match=f"has 32 bytes, not {size}"):
            Identity.from_seed(bytes(size))


class TestFile:
    @pytest.mark.parametrize("passphrase", [None, b"correct horse"])
    def test_what_is_written_reads_back(self, passphrase):
        identity = Identity.generate()
        pem = identity.to_pem(passphrase)
        assert (b"ENCRYPTED" in pem) == (passphrase is not None)
        assert Identity.from_pem(pem, passphrase).public == identity.public

    @pytest.mark.parametrize(
        ("written", "read"), [(b"right", b"wrong"), (b"right", None), (None, b"needless")]
    )
    def test_another_passphrase_does_not_open_it(self, written, read):
        pem = Identity.generate().to_pem(written)
        with pytest.raises(InvalidKey, match="wrong passphrase, or not a PKCS#8 PEM file"):
            Identity.from_pem(pem, read)

    @pytest.mark.parametrize(
        "pem", [b"", b"hello", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"]
    )
    def test_what_is_no_key_file_is_refused(self, pem):
        with pytest.raises(InvalidKey):
            Identity.from_pem(pem)

    def test_another_kind_of_key_is_refused(self):
        pem = ec.generate_private_key(ec.SECP256R1()).private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        with pytest.raises(InvalidKey, match="Ed25519 is expected"):
            Identity.from_pem(pem)


class TestSignature:
    @given(st.binary())
    def test_what_was_signed_verifies(self, message):
        identity = Identity.from_seed(SEED)
        identity.public.verify(identity.sign(message), message)

    @given(st.binary(max_size=80), st.binary(max_size=20))
    def test_nothing_else_verifies(self, signature, message):
        with pytest.raises(InvalidSignature, match=r"^the signature is not valid$"):
            Identity.from_seed(SEED).public.verify(signature, message)

    def test_another_key_or_message_does_not(self):
        one, other = Identity.generate(), Identity.generate()
        signature = one.sign(b"message")
        for key, message in [(other.public, b"message"), (one.public, b"Message")]:
            with pytest.raises(InvalidSignature):
                key.verify(signature, message)

    def test_a_key_that_is_no_point_verifies_nothing(self):
        with pytest.raises(InvalidSignature):
            PublicKey(b"\x02" + bytes(31)).verify(bytes(64), b"message")


def test_an_identity_never_shows_its_private_half():
    identity = Identity.from_seed(SEED)
    assert repr(identity) == f"Identity({identity.public})"
    assert not hasattr(identity, "__dict__")
