"""A sealed value is opened only as what it was signed for, and only if a trusted key signed it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz import Identity
from authz.crypto.seal import Seal, UntrustedSigner
from authz.errors import InvalidSignature

ANN, EVE = Identity.generate(), Identity.generate()
SEAL = Seal("test", dict[str, int])


def test_what_a_trusted_key_signed_is_opened_with_its_signer():
    opened = SEAL.open(SEAL.sign({"a": 1}, ANN), {ANN.public, EVE.public})
    assert opened == ({"a": 1}, ANN.public)


def test_a_stranger_is_named_and_refused():
    with pytest.raises(
        UntrustedSigner, match=f"{EVE.public}`.*: name that key by `--trust` if .* sign it anew"
    ):
        SEAL.open(SEAL.sign({"a": 1}, EVE), {ANN.public})


def test_a_value_signed_for_one_purpose_is_no_good_for_another():
    with pytest.raises(InvalidSignature):
        Seal("other", dict[str, int]).open(SEAL.sign({"a": 1}, ANN), {ANN.public})


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_no_byte_can_be_changed_unseen(place, change):
    data = bytearray(SEAL.sign({"a": 1}, ANN))
    data[place % len(data)] ^= change
    with pytest.raises((InvalidSignature, UntrustedSigner)):
        SEAL.open(bytes(data), {ANN.public})


@given(st.binary(max_size=200))
def test_junk_is_refused_without_saying_why(junk):
    with pytest.raises(InvalidSignature):
        SEAL.open(junk, {ANN.public})


def test_a_signed_value_of_another_type_is_refused():
    with pytest.raises(InvalidSignature):
        SEAL.open(Seal("test", str).sign("a", ANN), {ANN.public})
    assert msgspec.msgpack.decode(SEAL.sign({}, ANN))[1] == str(ANN.public)


def test_no_purpose_can_be_made_to_begin_as_another():
    with pytest.raises(ValueError, match="no NUL"):
        Seal("test 1\0 and more", str)
