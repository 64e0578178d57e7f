"""Who calls: by bearer token, by JSON Web Token, or by client certificate; and what each may ask about."""

from __future__ import annotations

import asyncio
import hashlib
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from http.client import HTTPMessage
from pathlib import Path
from time import monotonic, time
from typing import IO, Any, NamedTuple

import jwt
from cachetools import LRUCache
from cryptography import x509

from pep.gateway.errors import Refused
from pep.gateway.settings import Caller, GatewaySettings, Jwt

ALGORITHMS = ["EdDSA", "ES256", "ES384", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512"]
"""Signatures that only the issuer can make: no shared secrets, and never `none`."""
LEEWAY_SECONDS = 30
"""Tolerated difference between the issuer's clock and this one."""
RELOAD_SECONDS = 30.0
"""Minimum time between two readings of an issuer's keys for the sake of one that is not known."""
UNREAD_SECONDS = 3600.0
"""How long an issuer's keys count while they cannot be read again."""
REMEMBERED_SECONDS = 60.0
"""How long a token counts without its signature being verified again."""
FETCH_SECONDS = 5.0
"""How long an issuer may take to send its keys."""
MAX_KEYS_BYTES = 1 << 20
"""Maximum bytes of an issuer's keys."""
TOKENS_KEPT = 4096
"""Maximum verified tokens remembered until they expire."""


class Identified(NamedTuple):
    """A caller, and the one subject it may ask about if its token names one."""

    caller: Caller
    subject: str | None = None

    def may_ask(self, subject_type: str, subject_id: str | None, resource_type: str) -> None:
        """Raise Refused for a question that is not this caller's."""
        caller = self.caller
        if caller.subjects is not None and subject_type not in caller.subjects:
            raise Refused(403, f"`{caller.name}` may not ask about subjects of type `{subject_type}`")
        if caller.resources is not None and resource_type not in caller.resources:
            raise Refused(403, f"`{caller.name}` may not ask about resources of type `{resource_type}`")
        if self.subject is not None and subject_id != self.subject:
            raise Refused(403, "this token asks about its own subject only")


class _Remembered(NamedTuple):
    """A token that was verified."""

    expires: float
    """In Unix time."""
    until: float
    """When it is verified again, by the monotonic clock."""
    identified: Identified


ANONYMOUS = Identified(Caller("anonymous"))


class Callers:
    """Tells who calls."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._anonymous = settings.anonymous
        self._named = bool(settings.callers)
        self._tokens = {each.token_sha256: Identified(each) for each in settings.callers if each.token_sha256}
        self._certificates = {
            each.certificate: Identified(each) for each in settings.callers if each.certificate
        }
        self._issuers = [(each, JwtIssuer(each.jwt)) for each in settings.callers if each.jwt]
        self._verified: LRUCache[bytes, _Remembered] = LRUCache(TOKENS_KEPT)

    async def identify(self, headers: Iterable[tuple[bytes, bytes]], tls: Mapping[str, Any]) -> Identified:
        """Raises Refused."""
        if self._anonymous and not self._named:
            return ANONYMOUS  # some clients send an Authorization header whether or not they have a token
        given = [value for name, value in headers if name == b"authorization"]
        if len(given) > 1:
            raise Refused(400, "one Authorization header is expected")
        if given:
            scheme, _, token = given[0].partition(b" ")
            if scheme.lower() != b"bearer" or not token.strip():
                raise Refused(401, "the Authorization header must be `Bearer TOKEN`")
            return await self._bearer(token.strip())
        for name in _certificate_names(tls) if self._certificates else ():
            if (found := self._certificates.get(name)) is not None:
                return found
        if self._anonymous:
            return ANONYMOUS
        raise Refused(401, "say who calls: by a bearer token, or by a client certificate that is known here")

    async def _bearer(self, token: bytes) -> Identified:
        digest = hashlib.sha256(token)
        if (found := self._tokens.get(digest.hexdigest())) is not None:
            return found
        remembered = self._verified.get(digest.digest())
        if remembered is not None and remembered.expires > time() and remembered.until > monotonic():
            return remembered.identified
        for caller, issuer in self._issuers:
            if (claims := await issuer.verify(token)) is not None:
                found = Identified(caller, issuer.subject(claims))
                until = monotonic() + min(REMEMBERED_SECONDS, issuer.refresh)
                self._verified[digest.digest()] = _Remembered(claims["exp"], until, found)
                return found
        raise Refused(401, "the bearer token is not known, or no longer valid")


class JwtIssuer:
    """One issuer of JSON Web Tokens, and its keys."""

    def __init__(self, rules: Jwt) -> None:
        self._rules = rules
        self._keys: dict[str | None, jwt.PyJWK] = {}
        self._tried_at = self._read_at = float("-inf")
        self._reading = asyncio.Lock()

    @property
    def refresh(self) -> float:
        return self._rules.refresh

    async def verify(self, token: bytes) -> dict[str, Any] | None:
        """The claims of a token that holds; None if it does not, or is another issuer's."""
        try:
            header = jwt.get_unverified_header(token)
            key = await self._key(header.get("kid"))
            if key is None or header.get("alg") not in ALGORITHMS:
                return None
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=[header["alg"]],
                issuer=self._rules.issuer,
                audience=self._rules.audience,
                leeway=LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud"]},
            )
            return claims | {"exp": float(claims["exp"])}
        except (jwt.PyJWTError, TypeError, ValueError, OverflowError):
            return None

    def subject(self, claims: Mapping[str, Any]) -> str | None:
        """The one subject that its bearer may ask about. Raises Refused if the token should name one."""
        if self._rules.subject_claim is None:
            return None
        value = claims.get(self._rules.subject_claim)
        if not isinstance(value, str) or not value:
            raise Refused(401, f"the token has no claim `{self._rules.subject_claim}`")
        return value

    async def _key(self, kid: str | None) -> jwt.PyJWK | None:
        if self._is_due(kid):
            async with self._reading:
                if self._is_due(kid):
                    await self._read()
        return self._keys.get(kid)

    def _is_due(self, kid: str | None) -> bool:
        since = monotonic() - self._tried_at
        return since >= self.refresh or (kid not in self._keys and since >= RELOAD_SECONDS)

    async def _read(self) -> None:
        self._tried_at = monotonic()
        keys = await asyncio.to_thread(_read_keys, self._rules.jwks)
        if keys is not None:
            self._keys, self._read_at = keys, self._tried_at
        elif self._tried_at - self._read_at >= UNREAD_SECONDS:
            self._keys = {}


class _HttpsOnly(urllib.request.HTTPRedirectHandler):
    """Follows no redirect to an address that is not encrypted."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        if not newurl.startswith("https://"):
            raise urllib.error.URLError("it redirects to an address without https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _read_keys(where: str) -> dict[str | None, jwt.PyJWK] | None:
    """The keys of an issuer, by their ids; None if they cannot be read."""
    try:
        found = json.loads(_fetch(where) if where.startswith("https://") else Path(where).read_bytes())
        return {key.key_id: key for key in jwt.PyJWKSet.from_dict(found).keys}
    except jwt.PyJWTError:
        return {}  # there is none that can be used
    except (OSError, ValueError, AttributeError):
        return None


def _fetch(address: str) -> bytes:
    encrypted = urllib.request.HTTPSHandler(context=ssl.create_default_context())
    with urllib.request.build_opener(encrypted, _HttpsOnly).open(address, timeout=FETCH_SECONDS) as answer:
        text: bytes = answer.read(MAX_KEYS_BYTES)
    return text


def _certificate_names(tls: Mapping[str, Any]) -> list[str]:
    """What a verified client certificate calls its holder: its subject, and its alternative names."""
    chain = tls.get("client_cert_chain") or ()
    if not chain:
        return []
    certificate = x509.load_pem_x509_certificate(chain[0].encode())
    names = [certificate.subject.rfc4514_string()]
    try:
        alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return names
    names += alternatives.get_values_for_type(x509.UniformResourceIdentifier)
    return names + alternatives.get_values_for_type(x509.DNSName)
