"""Certificates: one encoding each, signed by their issuer, and nothing else gets through."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from authz import AuthFabricError, Identity
from authz.errors import InvalidSignature
from authz.spki import Capability, Certificate, MalformedCertificate, Notice, decode_chain, encode_chain
from authz.spki.capability import MAX_CAPABILITY_BYTES, decode, encode
from authz.spki.text import (
    parse_authority,
    parse_chain,
    parse_notice,
    parse_owners,
    unparse_certificate,
)
from tests.authz.spki.generators import KEYS, OWNER, capabilities

CAMERA = parse_authority(
    "type: uk.gov.pito.* except uk.gov.pito.Secret\naction: publish|subscribe\n"
    'attributes: location = "Victoria", speed\n'
    "where: event.speed in [30, 50.5, true] or not (event.speed < 3 and exists event.x)\n"
    "when: 09:00-17:00 mon-fri Europe/London\nrate: 10 per minute\nnetwork: city\naction: *"
)
GENUINE = Capability(OWNER.public, KEYS[1].public, True, CAMERA).sign(OWNER)


@given(capabilities)
def test_a_certificate_opens_to_what_was_signed(capability):
    issuer = next(key for key in KEYS if key.public == capability.issuer)
    (certificate,) = decode_chain(encode_chain([capability.sign(issuer)]))
    assert certificate.open() == capability
    assert certificate.issuer == capability.issuer


def test_nobody_signs_for_another():
    with pytest.raises(InvalidSignature):
        Capability(OWNER.public, KEYS[1].public, True, CAMERA).sign(KEYS[1])


def test_a_certificate_that_another_signed_does_not_open():
    forged = Certificate(GENUINE.body, KEYS[1].sign(GENUINE.body))
    with pytest.raises(InvalidSignature):
        forged.open()


def test_a_signature_over_the_bare_bytes_does_not_serve():
    with pytest.raises(InvalidSignature):
        Certificate(GENUINE.body, OWNER.sign(GENUINE.body)).open()


@given(st.integers(0, len(GENUINE.body) - 1), st.integers(1, 255))
def test_a_changed_byte_is_never_honoured(position, change):
    body = bytearray(GENUINE.body)
    body[position] ^= change
    with pytest.raises((InvalidSignature, MalformedCertificate)):
        Certificate(bytes(body), GENUINE.signature).open()


def test_the_hash_is_of_the_capability_and_not_of_the_signature():
    other = Certificate(GENUINE.body, bytes(64))
    assert other.id == GENUINE.id
    assert Certificate(GENUINE.body + b"\0", GENUINE.signature).id != GENUINE.id


@pytest.mark.parametrize(
    "respell",
    [
        lambda body: body + b"\xc0",
        lambda body: b"\xdc\x00\x05" + body[1:],
        lambda body: body.replace(b"\xa7publish\xa9subscribe", b"\xa9subscribe\xa7publish"),
        lambda body: body.replace(
            b"\x92\xa7publish\xa9subscribe", b"\x93\xa7publish\xa7publish\xa9subscribe"
        ),
        lambda body: body.replace(b"\x92\x0a\x3c", b"\x92\x0a\xcc\x3c"),
    ],
    ids=["trailing", "long array", "unsorted", "twice", "long integer"],
)
def test_another_spelling_of_a_capability_is_refused_though_its_issuer_signs_it(respell):
    body = respell(GENUINE.body)
    assert body != GENUINE.body
    respelt = Certificate(body, OWNER.sign(b"authfabric capability 1\0" + body))
    with pytest.raises(MalformedCertificate):
        respelt.open()


def test_a_capability_of_endless_size_is_not_read():
    certificate = Certificate(b"\x91" * (MAX_CAPABILITY_BYTES + 1), bytes(64))
    with pytest.raises(MalformedCertificate, match="at most"):
        certificate.open()


def test_a_certificate_of_nested_arrays_without_end_is_refused():
    with pytest.raises(MalformedCertificate):
        decode(GENUINE.body[:45] + b"\x91" * 10_000, Capability, MAX_CAPABILITY_BYTES)


def complaint(read, *arguments) -> str:
    """Whatever is given to it, it returns a value or raises one of our own errors."""
    try:
        read(*arguments)
    except AuthFabricError as error:
        return str(error)
    return ""


def harmless(read, *arguments) -> None:
    assert complaint(read, *arguments).isprintable()


@st.composite
def mutated(draw, genuine: bytes):
    data = bytearray(genuine)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        cut = draw(st.integers(0, 3))
        data[at : at + cut] = draw(st.binary(max_size=3))
    return bytes(data)


trees = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.binary(max_size=40)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=20,
)


@given(st.binary(max_size=300) | mutated(GENUINE.body) | trees.map(msgspec.msgpack.encode))
@example(b"")
def test_malformed_bytes_only_ever_raise_our_own_errors(data):
    harmless(Certificate(data, bytes(64)).open)
    harmless(Certificate(data, bytes(64)).unverified)
    harmless(lambda: Certificate(data, bytes(64)).issuer)
    harmless(decode_chain, data)
    harmless(decode, data, Notice, 1000)


@given(mutated(encode_chain([GENUINE, GENUINE])))
def test_malformed_chains_only_ever_raise_our_own_errors(data):
    harmless(lambda: [certificate.unverified() for certificate in decode_chain(data)])


@given(mutated(encode(Notice.event(OWNER, GENUINE, 7))))
def test_malformed_revocations_only_ever_raise_our_own_errors(data):
    harmless(lambda: decode(data, Notice, 1000).verify())


@given(
    st.text()
    | mutated(unparse_certificate(GENUINE).encode()).map(lambda data: data.decode("utf-8", "replace"))
)
@example("type: *\naction: *\nwhere: event.x == 1e999")
@example("type: *\naction: *\nrate: " + "9" * 5000 + " per day")
@example("type: *\naction: *\nwhere: event.x == " + "9" * 5000)
@example("type: *\naction: *\nwhere: event[99999999999999999999] == 1")
@example("type: *\naction: *\nwhere: " + " or ".join(f"event.x == {n}" for n in range(500)))
@example("type: *\naction: *\nwhere: " + "not " * 500 + "true")
@example("issuer: U\r\nsubject: U\r\n")
def test_malformed_text_only_ever_raises_our_own_errors(text):
    for parse in (parse_authority, parse_chain, parse_owners, parse_notice):
        assert "\n" not in complaint(parse, text)


def test_a_stranger_cannot_write_into_logs_or_terminals():
    body = GENUINE.body.replace(b"Europe/London", b"\x1b[2J\r\nadmin: ")
    with pytest.raises(MalformedCertificate, match=r"`\?\[2J\?\?admin: ` must be a time zone"):
        Certificate(body, bytes(64)).unverified()


def test_identities_are_compared_by_their_keys():
    twin = Identity.from_seed(bytes([1]) * 32)
    assert Capability(OWNER.public, twin.public, True, CAMERA).sign(OWNER).body == GENUINE.body
