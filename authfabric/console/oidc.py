"""Sign-in by OpenID Connect: the authorization code flow, with PKCE.

Invariants: an answer of the provider counts once, in the browser that was sent there, within ten minutes; an identity
token counts if the provider has signed it, for this console, in answer to this very sign-in; what the viewer may do
then, the fabric decides.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import urlencode

import httpx
import msgspec

from authz import AuthFabricError
from pep.gateway import Jwt, JwtIssuer

ATTEMPT_SECONDS = 600.0
"""How long somebody may take at the provider."""
MOST_ATTEMPTS = 1024
"""Maximum sign-ins that have begun: the oldest makes room."""
FETCH_SECONDS = 10.0
"""How long the provider may take to answer."""
DISCOVERY = "/.well-known/openid-configuration"


class SignInRefused(AuthFabricError):
    """Somebody is not signed in: `problem` says why."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"nobody is signed in: {problem}")
        self.problem = problem


class InvalidProvider(AuthFabricError):
    """Settings of a provider that cannot be used: `problem` says why."""

    def __init__(self, source: str, problem: str) -> None:
        super().__init__(f"`{source}`: {problem}")
        self.problem = problem


class Provider(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where viewers are sent to say who they are, as a file in YAML has it."""

    issuer: str
    client_id: str
    client_secret_file: str | None = None
    """Without one the console is a public client, and PKCE alone protects the flow."""
    claim: str = "sub"
    """The claim that names the viewer, as policies name subjects."""
    attributes: tuple[str, ...] = ()
    """Further claims, which policies may read as attributes of the subject, such as `groups`."""
    scopes: tuple[str, ...] = ("openid",)
    address: str | None = None
    """Where browsers reach the console, if not by the name that they ask for: `https://console.example`."""


class _Discovered(msgspec.Struct, frozen=True):
    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A sign-in that has begun."""

    until: float
    back: str
    state: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    nonce: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    verifier: str = field(default_factory=lambda: secrets.token_urlsafe(48))


def read_provider(path: Path) -> Provider:
    """Raises InvalidProvider."""
    try:
        given = msgspec.yaml.decode(path.read_bytes(), type=Provider)
    except OSError as error:
        raise InvalidProvider(str(path), error.strerror or str(error)) from None
    except (msgspec.DecodeError, ValueError) as error:
        raise InvalidProvider(str(path), re.sub(r"\s+", " ", str(error))) from None
    if not given.issuer.startswith("https://"):
        raise InvalidProvider(str(path), f"issuer `{given.issuer}` must be an https address")
    if "openid" not in given.scopes:
        raise InvalidProvider(str(path), "scopes must have `openid`")
    if given.client_secret_file is not None and not Path(given.client_secret_file).is_file():
        raise InvalidProvider(str(path), f"client_secret_file `{given.client_secret_file}` is not there")
    return given


class OidcSignIn:
    """Sends viewers to a provider, and takes what they come back with."""

    def __init__(self, provider: Provider) -> None:
        file = provider.client_secret_file
        self.provider = provider
        self._secret = "" if file is None else Path(file).read_text().strip()
        self._attempts: dict[str, _Attempt] = {}
        self._found: tuple[_Discovered, JwtIssuer] | None = None

    async def begin(self, back: str) -> tuple[str, str]:
        """Where to send a browser that is to come `back` here, and what to have it remember. Raises SignInRefused."""
        found, _ = await self._discover()
        attempt, mark = _Attempt(monotonic() + ATTEMPT_SECONDS, back), secrets.token_urlsafe(32)
        self._attempts[_hash(mark)] = attempt
        while len(self._attempts) > MOST_ATTEMPTS:
            del self._attempts[next(iter(self._attempts))]
        challenge = base64.urlsafe_b64encode(hashlib.sha256(attempt.verifier.encode()).digest())
        query = {
            "response_type": "code",
            "client_id": self.provider.client_id,
            "redirect_uri": back,
            "scope": " ".join(self.provider.scopes),
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": challenge.decode().rstrip("="),
            "code_challenge_method": "S256",
        }
        joint = "&" if "?" in found.authorization_endpoint else "?"
        return f"{found.authorization_endpoint}{joint}{urlencode(query)}", mark

    async def finish(self, mark: str, given: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
        """Who has come back, and which attributes the provider gives them. Raises SignInRefused."""
        attempt = self._attempts.pop(_hash(mark), None)
        if attempt is None or monotonic() > attempt.until:
            raise SignInRefused("it was not begun in this browser, or more than ten minutes ago")
        if not hmac.compare_digest(given.get("state", "").encode(), attempt.state.encode()):
            raise SignInRefused("the answer belongs to another sign-in")
        if given.get("error"):
            raise SignInRefused(f"the provider says `{given['error'][:80]}`")
        claims = await self._claims(given.get("code", ""), attempt)
        return self._name(claims), {name: claims[name] for name in self.provider.attributes if name in claims}

    async def _claims(self, code: str, attempt: _Attempt) -> dict[str, Any]:
        found, issuer = await self._discover()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": attempt.back,
            "client_id": self.provider.client_id,
            "code_verifier": attempt.verifier,
        }
        if self._secret:
            form["client_secret"] = self._secret
        answer = await _fetch("POST", found.token_endpoint, form)
        token = answer.get("id_token")
        claims = await issuer.verify(token.encode()) if isinstance(token, str) else None
        if claims is None:
            raise SignInRefused("the identity token is not the provider's, not for this console, or too old")
        if not hmac.compare_digest(str(claims.get("nonce", "")).encode(), attempt.nonce.encode()):
            raise SignInRefused("the identity token answers another sign-in")
        if claims.get("azp", self.provider.client_id) != self.provider.client_id:
            raise SignInRefused("the identity token was issued to another client")
        return claims

    def _name(self, claims: Mapping[str, Any]) -> str:
        name = claims.get(self.provider.claim)
        if not isinstance(name, str) or not name:
            raise SignInRefused(f"the identity token has no claim `{self.provider.claim}`")
        if self.provider.claim == "email" and claims.get("email_verified") is not True:
            raise SignInRefused("the provider has not verified the address of e-mail")
        return name

    async def _discover(self) -> tuple[_Discovered, JwtIssuer]:
        if self._found is None:
            answer = await _fetch("GET", self.provider.issuer.rstrip("/") + DISCOVERY)
            try:
                found = msgspec.convert(answer, _Discovered)
            except msgspec.ValidationError as error:
                raise SignInRefused(f"the provider's configuration cannot be used: {error}") from None
            ends = (found.authorization_endpoint, found.token_endpoint, found.jwks_uri)
            if found.issuer != self.provider.issuer or not all(each.startswith("https://") for each in ends):
                raise SignInRefused("the provider's configuration names another issuer, or no https address")
            self._found = found, JwtIssuer(Jwt(found.issuer, self.provider.client_id, found.jwks_uri))
        return self._found


async def _fetch(method: str, address: str, form: Mapping[str, str] | None = None) -> dict[str, Any]:
    """What the provider answers, as JSON. Redirects are not followed. Raises SignInRefused."""
    try:
        async with httpx.AsyncClient(verify=ssl.create_default_context(), timeout=FETCH_SECONDS) as client:
            answer = await client.request(method, address, data=form)
            found = answer.json() if answer.is_success else None
    except (httpx.HTTPError, ValueError, ssl.SSLError) as error:
        raise SignInRefused(f"the provider does not answer: {type(error).__name__}") from None
    if not isinstance(found, dict):
        raise SignInRefused(f"the provider answers {answer.status_code}, and not what it should")
    return found


def _hash(mark: str) -> str:
    return hashlib.sha256(mark.encode()).hexdigest()
