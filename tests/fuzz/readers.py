"""Everything that reads what strangers send in place of certificates, chains, revocations and arrivals."""

from __future__ import annotations

import base64
import contextlib
import ssl

from authz import AuthFabricError, Identity
from authz.spki import Kind, Notice, Owners, Resource, Revocations, decode_chain, verify
from authz.spki.capability import decode
from authz.spki.revocation import MAX_NOTICE_BYTES
from authz.spki.text import parse_chain, parse_notice, parse_owners
from bus.identity.certificates import certificate_end, certified_hosts, certified_key
from bus.identity.credentials import read_token
from bus.server.callout_tokens import read_arrival

OWNERS = Owners([(Resource(Kind.ANY, "*"), Identity.from_seed(bytes(32)).public)])


def chain(data: bytes) -> None:
    verify(decode_chain(data), OWNERS, 1_800_000_000.0, Revocations())


def certificate(data: bytes) -> None:
    for each in decode_chain(data):
        each.unverified()
        each.open()


def notice(data: bytes) -> None:
    Revocations.of(decode(data, Notice, MAX_NOTICE_BYTES))


def text(data: bytes) -> None:
    words = data.decode("utf-8", "replace")
    for parse in (parse_chain, parse_notice, parse_owners):
        try:
            parse(words, "fuzz")
        except AuthFabricError:
            continue


def token(data: bytes) -> None:
    read_token(data.decode("latin-1"))


def link(data: bytes) -> None:
    """The certificate of a link with a server, whose form the server has looked at, and nothing more."""
    pem = ssl.DER_cert_to_PEM_cert(data)
    for read in (certified_key, certificate_end, certified_hosts):
        with contextlib.suppress(AuthFabricError):
            read(pem)


def arrival(data: bytes) -> None:
    read_arrival(b"x." + base64.urlsafe_b64encode(data) + b".y")
