"""What a NATS server asks about each new connection (its auth callout), and what it is told: signed tokens, both ways.

The server sends an authorization request; the answer is a token that either names the permissions of the connection
or refuses it. An empty list of permissions would allow everything, so a permission that is not given is spelled out
as denied.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from authz import Identity, PublicKey
from bus.errors import BadMessage
from bus.server.subject_permissions import Permissions

ACCOUNT_PREFIX = 0
"""The first byte of an account's key; in text it begins with A."""
_HEADER = b'{"typ":"JWT","alg":"ed25519-nkey"}'


@dataclass(frozen=True, slots=True)
class Arrival:
    """Somebody who wants to connect: what they say, and where they stand."""

    server: str
    number: int
    """The connection's, which no other of that server has."""
    user: str
    """The key that the server has made up for this connection: the answer must be about it."""
    key: str
    """The connection key that is claimed."""
    signature: str
    nonce: str
    token: str
    """What was sent along: whom the connection key speaks for, and a capability chain, encoded."""
    name: str = ""
    certificate: str = ""
    """The TLS certificate in PEM, if one was verified."""


@dataclass(frozen=True, slots=True)
class Admission:
    """What a connection is allowed, and until when (Unix time; None for no end)."""

    name: str
    """How the server calls the connection in what it tells its operators."""
    permissions: Permissions
    until: float | None = None


class _Server(msgspec.Struct, frozen=True):
    id: str


class _Client(msgspec.Struct, frozen=True):
    id: int
    nonce: str = ""
    name: str = ""


class _Options(msgspec.Struct, frozen=True):
    nkey: str = ""
    sig: str = ""
    auth_token: str = ""


class _Tls(msgspec.Struct, frozen=True):
    verified_chains: list[list[str]] = []


class _Body(msgspec.Struct, frozen=True):
    server_id: _Server
    user_nkey: str
    client_info: _Client
    connect_opts: _Options = _Options()
    client_tls: _Tls = _Tls()


class _Request(msgspec.Struct, frozen=True):
    nats: _Body


_decode_request = msgspec.json.Decoder(_Request).decode


def read_arrival(data: bytes) -> Arrival:
    """Read what the server asks. Raises BadMessage."""
    try:
        _, claims, _ = data.split(b".")
        body = _decode_request(base64.urlsafe_b64decode(claims + b"=" * (-len(claims) % 4))).nats
    except (ValueError, binascii.Error, msgspec.DecodeError) as error:
        raise BadMessage("", f"this is no authorization request: {error}") from None
    chains, client, options = body.client_tls.verified_chains, body.client_info, body.connect_opts
    return Arrival(
        server=body.server_id.id,
        number=client.id,
        user=body.user_nkey,
        key=options.nkey,
        signature=options.sig,
        nonce=client.nonce,
        token=options.auth_token,
        name=client.name,
        certificate=chains[0][0] if chains and chains[0] else "",
    )


def admit(arrival: Arrival, admission: Admission, issuer: Identity, account: str, at: float) -> bytes:
    """The token that lets a connection in, to one account."""
    permissions = admission.permissions
    nats: dict[str, object] = {
        "pub": _rules(permissions.publish, permissions.publish_denied),
        "sub": _rules(permissions.subscribe, permissions.subscribe_denied),
        "type": "user",
        "version": 2,
    }
    claims: dict[str, object] = {"aud": account, "name": admission.name, "sub": arrival.user, "nats": nats}
    if admission.until is not None:
        claims["exp"] = int(admission.until)
    return _answer(arrival, {"jwt": _sign(claims, issuer, at)}, issuer, at)


def refuse(arrival: Arrival, issuer: Identity, at: float) -> bytes:
    """The token that turns a connection away. The reason is for our own log: a stranger learns none."""
    return _answer(arrival, {"error": "not admitted"}, issuer, at)


def account_key(key: PublicKey) -> str:
    """A key as the server's configuration names the issuer of tokens."""
    body = bytes([ACCOUNT_PREFIX]) + key.raw
    return base64.b32encode(body + binascii.crc_hqx(body, 0).to_bytes(2, "little")).decode().rstrip("=")


def _answer(arrival: Arrival, what: dict[str, str], issuer: Identity, at: float) -> bytes:
    nats = {**what, "type": "authorization_response", "version": 2}
    return _sign({"aud": arrival.server, "sub": arrival.user, "nats": nats}, issuer, at).encode()


def _rules(allowed: Iterable[str], denied: Iterable[str]) -> dict[str, list[str]]:
    allow, deny = sorted(allowed), sorted(denied)
    return {"allow": allow, "deny": deny} if allow else {"deny": [">"]}


def _sign(claims: dict[str, object], issuer: Identity, at: float) -> str:
    stamped = {**claims, "iss": account_key(issuer.public), "iat": int(at)}
    signed = _base64(_HEADER) + b"." + _base64(msgspec.json.encode(stamped))
    return (signed + b"." + _base64(issuer.sign(signed))).decode()


def _base64(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")
