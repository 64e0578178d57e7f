"""Who may call the gateway, shown by real tokens and certificates, and what each may ask about."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import ipaddress
import json
import ssl
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from time import time

import httpx
import jwt
import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from typer.testing import CliRunner

from authfabric.cli import app
from pep.gateway.server import Tls, serving
from pep.sync import LoopThread
from tests.pep.gateway.running import EVALUATION, EVALUATIONS, gateway_process, question
from tests.waiting import once_it_works

ISSUER, AUDIENCE = "https://idp.example.org", "authzen"
KEY = ec.generate_private_key(ec.SECP256R1())
OTHER = ec.generate_private_key(ec.SECP256R1())
NOTE = {"resource": {"type": "note", "id": "1"}}


def settings(tmp_path, **more) -> str:
    public = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(KEY.public_key())) | {"kid": "1"}
    (tmp_path / "jwks.json").write_text(json.dumps({"keys": [public]}))
    trusted = {"issuer": ISSUER, "audience": AUDIENCE, "jwks": str(tmp_path / "jwks.json")}
    file = tmp_path / "gateway.yaml"
    file.write_text(
        yaml.safe_dump(
            {
                "subjects": {"user": "{id}", "service": "service:{id}"},
                "callers": [
                    {"name": "shop", "token_sha256": hashlib.sha256(b"secret").hexdigest(), "resources": ["record"]},
                    {"name": "batch", "token_sha256": hashlib.sha256(b"other").hexdigest(), "search": False},
                    {"name": "people", "jwt": trusted | {"subject_claim": "sub"}, "subjects": ["user"]},
                    {"name": "mesh", "certificate": "spiffe://example.org/mesh"},
                ],
            }
            | more
        )
    )  # fmt: skip
    return str(file)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def signed(subject: str = "alice", key=KEY, algorithm: str = "ES256", **claims) -> dict[str, str]:
    said = {"sub": subject, "iss": ISSUER, "aud": AUDIENCE, "exp": time() + 60} | claims
    return bearer(
        jwt.encode({k: v for k, v in said.items() if v is not None}, key, algorithm, headers={"kid": "1"})
    )


async def status(client: httpx.AsyncClient, headers: dict[str, str], **body) -> int:
    return (await client.post(EVALUATION, json=question() | body, headers=headers)).status_code


@pytest.fixture(scope="module")
def closed(running, tmp_path_factory) -> Iterator[str]:
    """The address of a gateway that answers only whom it knows."""
    file = settings(tmp_path_factory.mktemp("gateway"))
    with contextlib.closing(LoopThread()) as loop:
        context = gateway_process(running, "--config", file)
        client = loop.run(context.__aenter__())
        yield str(client.base_url)
        loop.run(context.__aexit__(None, None, None))


@pytest.fixture
async def client(closed) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=closed, timeout=30.0) as client:
        yield client


async def test_whoever_is_not_known_is_not_answered(client):
    assert await status(client, bearer("secret")) == 200
    nobody = await client.post(EVALUATION, json=question())
    assert (nobody.status_code, nobody.headers["www-authenticate"]) == (401, "Bearer")
    for wrong in (bearer("guess"), {"Authorization": "Basic c2VjcmV0"}, {"Authorization": "Bearer"}):
        assert await status(client, wrong) == 401


async def test_a_caller_asks_about_its_own_types_only(client):
    assert await status(client, bearer("secret"), **NOTE) == 403
    body = question() | {"evaluations": [{}, NOTE]}
    answer = await client.post(EVALUATIONS, json=body, headers=bearer("secret"))
    first, second = answer.json()["evaluations"]
    assert (first["decision"], second["context"]["error"]["status"]) == (True, 403)


async def test_a_caller_that_may_not_search_does_not(client):
    search, where = question() | {"resource": {"type": "record"}}, "/access/v1/search/resource"
    assert (await client.post(where, json=search, headers=bearer("other"))).status_code == 403
    assert (await client.post(where, json=search, headers=bearer("secret"))).status_code == 200


async def test_the_token_of_a_user_asks_about_that_user_only(client):
    assert await status(client, signed("alice")) == 200
    assert await status(client, signed("bob")) == 403
    search = {"subject": {"type": "user"}} | {k: v for k, v in question().items() if k != "subject"}
    answer = await client.post("/access/v1/search/subject", json=search, headers=signed("alice"))
    assert answer.status_code == 403


async def test_the_token_of_a_user_does_not_ask_about_a_service_of_that_id(client, tmp_path):
    service = {"subject": {"type": "service", "id": "alice"}}
    assert await status(client, signed("alice"), **service) == 403
    people = {"issuer": ISSUER, "audience": AUDIENCE, "jwks": "keys.json", "subject_claim": "sub"}
    for more in ({}, {"subjects": ["user", "service"]}):
        file = settings(tmp_path, callers=[{"name": "people", "jwt": people} | more])
        result = CliRunner().invoke(app, ["gateway", "serve", "--config", file, "--insecure"])
        assert (result.exit_code, "of which one type" in result.output) == (2, True), result.output


async def test_a_key_that_its_issuer_has_taken_out_no_longer_counts(running, tmp_path):
    trusted = {"issuer": ISSUER, "audience": AUDIENCE, "jwks": str(tmp_path / "jwks.json"), "refresh": 1}
    file = settings(tmp_path, callers=[{"name": "people", "jwt": trusted}])
    old, other = signed(), signed()
    async with gateway_process(running, "--config", file) as client:
        assert await status(client, old) == 200
        fresh = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(OTHER.public_key())) | {"kid": "2"}
        (tmp_path / "jwks.json").write_text(json.dumps({"keys": [fresh]}))

        async def refused() -> None:
            assert await status(client, old) == 401

        await once_it_works(refused, AssertionError)
        assert await status(client, other) == 401


async def test_a_token_that_its_issuer_did_not_sign_for_here_and_now_is_refused(client):
    assert await status(client, signed()) == 200
    for wrong in (
        signed(key=OTHER),
        signed(exp=time() - 60),
        signed(exp=None),
        signed(exp=10**400),
        signed(aud="somebody else"),
        signed(iss="https://evil.example"),
        signed(sub=None),
    ):
        assert await status(client, wrong) == 401


async def test_keys_are_read_from_no_address_without_https(running, tmp_path, monkeypatch):
    """The issuer's own server redirects there, and whoever is on the way could put in other keys."""
    authority = Authority()
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    certificate = authority.certify(tmp_path / "issuer", x509.DNSName("localhost"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    asked: list[str] = []
    public = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(KEY.public_key())) | {"kid": "1"}

    async def issuer(scope, receive, send) -> None:
        asked.append(scope["scheme"] + scope["path"])
        to = redirects.get(scope["path"])
        headers = [(b"location", to.encode())] if to else []
        await send({"type": "http.response.start", "status": 302 if to else 200, "headers": headers})
        body = b"" if to else json.dumps({"keys": [public]}).encode()
        await send({"type": "http.response.body", "body": body})

    async with (
        serving(issuer, "127.0.0.1", 0) as clear,
        serving(issuer, "127.0.0.1", 0, Tls(*map(Path, certificate))) as encrypted,
    ):
        redirects = {
            "/away": f"http://localhost:{clear}/keys",
            "/on": f"https://localhost:{encrypted}/keys",
        }
        for path, expected in (("/on", 200), ("/away", 401)):
            trusted = {"issuer": ISSUER, "audience": AUDIENCE, "jwks": f"https://localhost:{encrypted}{path}"}
            file = settings(tmp_path, callers=[{"name": "people", "jwt": trusted}])
            async with gateway_process(running, "--config", file) as client:
                assert await status(client, signed()) == expected
    assert asked == ["https/on", "https/keys", "https/away"]


async def test_a_token_signed_with_the_issuers_public_key_as_a_secret_is_refused(client):
    public = KEY.public_key().public_bytes(
        serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint
    )
    assert await status(client, signed(key=public, algorithm="HS256")) == 401
    assert await status(client, signed(key="", algorithm="none")) == 401


async def test_nobody_passes_a_user_off_as_a_service(client):
    sync = {"action": {"name": "sync"}, **NOTE}
    service = sync | {"subject": {"type": "service", "id": "indexer"}}
    posing = sync | {"subject": {"type": "user", "id": "service:indexer"}}
    assert (await client.post(EVALUATION, json=service, headers=bearer("other"))).json()["decision"] is True
    answer = await client.post(EVALUATION, json=posing, headers=bearer("other"))
    assert (answer.status_code, "decision" in answer.json()) == (400, False)


async def test_client_certificates(running, tmp_path):
    authority = Authority()
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    server = authority.certify(tmp_path / "server", x509.DNSName("localhost"), x509.IPAddress(LOOPBACK))
    known = authority.certify(tmp_path / "mesh", x509.UniformResourceIdentifier("spiffe://example.org/mesh"))
    unknown = authority.certify(tmp_path / "x", x509.UniformResourceIdentifier("spiffe://example.org/x"))
    options = ["--config", settings(tmp_path), "--certificate", server[0], "--key", server[1]]
    async with gateway_process(
        running, *options, "--clients", str(tmp_path / "ca.pem"), verify=trusting(tmp_path, known)
    ) as client:
        assert await status(client, {}) == 200
        for other, expected in ((unknown, 401), (None, 401)):
            context = trusting(tmp_path, other)
            async with httpx.AsyncClient(base_url=client.base_url, verify=context) as stranger:
                assert await status(stranger, {}) == expected


LOOPBACK = ipaddress.ip_address("127.0.0.1")


def trusting(folder, pair) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    if pair is not None:
        context.load_cert_chain(*pair)
    return context


class Authority:
    def __init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "authority")])
        self.pem = self._sign(self.name, self.key.public_key(), x509.BasicConstraints(True, None))

    def certify(self, base, *names) -> tuple[str, str]:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, base.name)])
        certificate, secret = base.with_suffix(".pem"), base.with_suffix(".key")
        certificate.write_bytes(self._sign(subject, key.public_key(), x509.SubjectAlternativeName(names)))
        secret.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return str(certificate), str(secret)

    def _sign(self, subject, key, extension) -> bytes:
        now = datetime.datetime.now(datetime.UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
            .add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
            .sign(self.key, hashes.SHA256())
        )
        return certificate.public_bytes(serialization.Encoding.PEM)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{}", "nobody may call"),
        ("callers: [{name: x}]", "needs one of token_sha256, certificate and jwt"),
        ("anonymous: true\nsubjects: {user: alice}", "must contain {id} once"),
        ("anonymous: true\nresources: {'*': '/{id}'}", "must contain {type}"),
        ("anonymous: true\nsubjects: {user: '{id}', man: '{id}'}", "have one template"),
        ("anonymous: true\nsubjects: {user: '{id}', man: user, boy: man}", "not as `man`"),
        ("anonymous: true\nsubjects: {'*': '{type}:{id}', man: '*'}", "not as `*`"),
        ("anonymous: true\nbase_url: pdp", "must be an http or https address"),
        (
            "anonymous: true\ncaller: []",
            "gateway.yaml:2:1: there is no field `caller` here: did you mean `callers`?",
        ),
        ("callers: [{name: x, token_sha256: secret}]", "gateway.yaml:1:"),
        (": :", "gateway.yaml:1:"),
    ],
)
def test_settings_that_cannot_be_used_are_named(tmp_path, text, problem):
    file = tmp_path / "gateway.yaml"
    file.write_text(text)
    result = CliRunner().invoke(app, ["gateway", "serve", "--config", str(file), "--insecure"])
    assert (result.exit_code, problem in result.output) == (2, True), result.output


def test_an_option_lets_everybody_ask_whatever_the_settings_say(tmp_path):
    (tmp_path / "gateway.yaml").write_text("resources: {record: '/record/{id}'}")
    words = ["--config", str(tmp_path / "gateway.yaml"), "--policies", str(tmp_path / "none")]
    closed = CliRunner().invoke(app, ["gateway", "serve", *words])
    assert (closed.exit_code, "nobody may call" in closed.output) == (2, True)
    opened = CliRunner().invoke(app, ["gateway", "serve", *words, "--anonymous"])
    assert "`none` is no folder" in opened.output, opened.output


def test_a_token_is_made_with_the_settings_that_accept_it():
    made = json.loads(CliRunner().invoke(app, ["gateway", "token", "shop", "--json"]).stdout)
    assert hashlib.sha256(made["token"].encode()).hexdigest() == made["token_sha256"]
