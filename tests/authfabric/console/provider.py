"""A small OpenID Connect provider over https, for the tests of a sign-in: it signs in whoever its page names."""

from __future__ import annotations

import base64
import hashlib
import secrets
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import time
from urllib.parse import parse_qs, urlencode

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from pep.gateway import Tls, serving
from tests.self_signed import self_signed

CLIENT, SECRET = "authfabric-console", "the console's secret"


@dataclass
class OidcProvider:
    """What it knows of its users, and what it may be told to do wrong."""

    folder: Path
    issuer: str = ""
    users: dict[str, dict[str, object]] = field(default_factory=dict)
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    signs_with: ec.EllipticCurvePrivateKey | None = None
    """Another key than it publishes."""
    says: dict[str, object] = field(default_factory=dict)
    """Claims in place of the right ones."""
    _codes: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def certificate(self) -> Path:
        return self.folder / "provider.pem"

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/.well-known/openid-configuration", self._configuration),
                Route("/keys", self._keys),
                Route("/authorize", self._authorize),
                Route("/token", self._token, methods=["POST"]),
            ]
        )

    async def _configuration(self, request: Request) -> Response:
        return JSONResponse(
            {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/keys",
            }
        )

    async def _keys(self, request: Request) -> Response:
        public = jwt.algorithms.ECAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        return JSONResponse({"keys": [{**public, "kid": "one", "use": "sig", "alg": "ES256"}]})

    async def _authorize(self, request: Request) -> Response:
        """A page to choose who to be, and then back with a code."""
        asked = dict(request.query_params)
        user = asked.pop("user", "")
        if not user:
            links = "".join(
                f'<p><a href="/authorize?{urlencode({**asked, "user": name})}">{name}</a></p>'
                for name in self.users
            )
            return HTMLResponse(f"<!doctype html><title>Provider</title><h1>Who are you?</h1>{links}")
        assert asked["response_type"] == "code"
        assert asked["client_id"] == CLIENT
        assert asked["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe(16)
        self._codes[code] = {**asked, "user": user}
        back = urlencode({"code": code, "state": asked["state"]})
        return RedirectResponse(f"{asked['redirect_uri']}?{back}", 303)

    async def _token(self, request: Request) -> Response:
        form = {name: each[0] for name, each in parse_qs((await request.body()).decode()).items()}
        asked = self._codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        right = (CLIENT, SECRET, challenge)
        given = form.get("client_id"), form.get("client_secret"), asked and asked["code_challenge"]
        if asked is None or given != right or form["redirect_uri"] != asked["redirect_uri"]:
            return JSONResponse({"error": "invalid_grant"}, 400)
        claims = {
            "iss": self.issuer,
            "aud": CLIENT,
            "sub": f"id-of-{asked['user']}",
            "exp": time() + 60,
            "iat": time(),
            "nonce": asked["nonce"],
            **self.users[asked["user"]],
            **self.says,
        }
        token = jwt.encode(claims, self.signs_with or self.key, "ES256", headers={"kid": "one"})
        return JSONResponse({"id_token": token, "access_token": "unused", "token_type": "Bearer"})


@asynccontextmanager
async def oidc_provider(folder: Path, users: dict[str, dict[str, object]]) -> AsyncIterator[OidcProvider]:
    """A provider that runs; its certificate is its own authority."""
    provider = OidcProvider(folder, users=users)
    key = self_signed(folder, "provider")
    async with serving(provider.app(), "127.0.0.1", 0, Tls(provider.certificate, key)) as port:
        provider.issuer = f"https://127.0.0.1:{port}"
        yield provider


def trusting(provider: OidcProvider) -> ssl.SSLContext:
    """What a browser of a test goes by."""
    return ssl.create_default_context(cafile=provider.certificate)
