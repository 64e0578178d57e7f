"""Sign-in by OpenID Connect, over HTTP, against a real provider: only its own answer, to this very sign-in, counts."""

from __future__ import annotations

from contextlib import asynccontextmanager
from time import time
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.asymmetric import ec

from authfabric.console.app import BACK, MARK
from authfabric.console.oidc import InvalidProvider, read_provider
from tests.authfabric.console.provider import trusting
from tests.authfabric.console.running import place

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(tmp_path_factory):
    async with place(tmp_path_factory.mktemp("console")) as found:
        yield found


@pytest.fixture
def provider(running):
    yield running.provider
    running.provider.says.clear()
    running.provider.signs_with = None


@asynccontextmanager
async def browser(running):
    async with httpx.AsyncClient(
        base_url=running.served.address, timeout=20, verify=trusting(running.provider)
    ) as client:
        yield client


async def sent_back(client, user: str) -> str:
    """Where the provider sends the browser of somebody who says who they are."""
    there = (await client.get("/sign-in/provider")).headers["location"]
    return (await client.get(f"{there}&user={user}")).headers["location"]


async def test_the_fabric_decides_by_what_the_provider_says_of_a_viewer(running):
    async with browser(running) as client:
        answer = await client.get(await sent_back(client, "nina"))
        assert answer.status_code == 200
        assert "samesite=strict" in answer.headers["set-cookie"].lower()
        assert "nina" in (await client.get("/")).text
        assert (await client.get("/edit?file=sales.yaml")).status_code == 403
    async with browser(running) as client:
        refused = await client.get(await sent_back(client, "otto"))
        assert refused.status_code == 401
        assert "otto may not look here" in refused.text
        assert (await client.get("/")).status_code == 303


@pytest.mark.parametrize(
    "wrong",
    [{"aud": "another client"}, {"iss": "https://other.example"}, {"exp": time() - 3600}, {"azp": "another"}],
    ids=["audience", "issuer", "expired", "authorized party"],
)
async def test_a_token_that_is_not_for_this_console_signs_nobody_in(running, provider, wrong):
    provider.says.update(wrong)
    async with browser(running) as client:
        assert (await client.get(await sent_back(client, "nina"))).status_code == 401
        assert (await client.get("/")).status_code == 303


async def test_a_token_that_answers_another_sign_in_signs_nobody_in(running, provider):
    provider.says["nonce"] = "of another sign-in"
    async with browser(running) as client:
        refused = await client.get(await sent_back(client, "nina"))
    assert refused.status_code == 401
    assert "answers another sign-in" in refused.text


async def test_a_token_by_another_key_signs_nobody_in(running, provider):
    provider.signs_with = ec.generate_private_key(ec.SECP256R1())
    async with browser(running) as client:
        assert (await client.get(await sent_back(client, "nina"))).status_code == 401


async def test_an_answer_counts_in_the_browser_that_was_sent_there(running):
    async with browser(running) as one, browser(running) as other:
        back = await sent_back(one, "nina")
        assert (await other.get(back)).status_code == 401
        await other.get("/sign-in/provider")  # even if that one was sent there, too
        refused = await other.get(back)
        assert refused.status_code == 401
        assert "another sign-in" in refused.text


async def test_an_answer_counts_once(running):
    async with browser(running) as client:
        back = await sent_back(client, "nina")
        mark = client.cookies[MARK]
        assert (await client.get(back)).status_code == 200
        client.cookies.clear()
        client.cookies.set(MARK, mark)
        assert (await client.get(back)).status_code == 401


async def test_what_the_provider_refuses_is_said(running):
    async with browser(running) as client:
        there = (await client.get("/sign-in/provider")).headers["location"]
        state = parse_qs(urlsplit(there).query)["state"][0]
        refused = await client.get(f"{BACK}?error=access_denied&state={state}")
    assert refused.status_code == 401
    assert "access_denied" in refused.text


async def test_nobody_becomes_the_operator_by_a_name(running, provider):
    provider.says["name"] = "operator"
    async with browser(running) as client:
        assert (await client.get(await sent_back(client, "nina"))).status_code == 401


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("issuer: http://id.example\nclient_id: c", "must be an https address"),
        ("issuer: https://id.example\nclient_id: c\nscopes: [email]", "must have `openid`"),
        ("issuer: https://id.example\nclient_id: c\nclient_secret_file: /no/such", "is not there"),
        ("issuer: https://id.example", "client_id"),
        ("issuer: https://id.example\nclient_id: c\nclaims: [x]", "claims"),
    ],
)
async def test_settings_that_cannot_be_used_are_named(tmp_path, text, told):
    (tmp_path / "oidc.yaml").write_text(text)
    with pytest.raises(InvalidProvider, match=told):
        read_provider(tmp_path / "oidc.yaml")
