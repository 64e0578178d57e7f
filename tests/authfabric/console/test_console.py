"""The console over HTTP, on a real fabric: who has not signed in sees nothing, and nobody does what is not theirs."""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager

import httpx
import pytest
import pytest_asyncio

from authfabric.console.app import COOKIE
from tests.authfabric.console.running import CONSOLE_POLICY, MALLORY, VERA, place
from tests.waiting import PATIENCE

pytestmark = pytest.mark.asyncio(loop_scope="module")
PAGES = [
    "/",
    "/decisions",
    "/why",
    "/search",
    "/policies",
    "/releases",
    "/diff?from=1&to=1",
    "/edit",
    "/events",
]
PAGES += ["/trust", "/revoke?name=pdp-1"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(tmp_path_factory):
    async with place(tmp_path_factory.mktemp("console")) as found:
        yield found


@asynccontextmanager
async def browser(running, token: str | None = None):
    async with httpx.AsyncClient(base_url=running.served.address, timeout=20) as client:
        if token is not None:
            answer = await client.post("/sign-in", data={"token": token})
            assert answer.status_code == 303, answer.text
        yield client


def word_of(page: str) -> str:
    found = re.search(r'name="word" value="([^"]+)"', page)
    assert found
    return found[1]


async def test_who_has_not_signed_in_sees_nothing(running):
    async with browser(running) as client:
        for path in PAGES:
            answer = await client.get(path)
            assert (answer.status_code, answer.headers["location"], answer.text) == (303, "/sign-in", "")
        assert (await client.get("/live")).status_code == 401
        assert (await client.post("/release", data={"to": "1"})).status_code == 401
        assert (await client.post("/revoke", data={"name": "pdp-1"})).status_code == 401
        assert (await client.post("/sign-in", data={"token": "guessed"})).status_code == 401


async def test_every_answer_forbids_foreign_scripts_frames_and_caching(running):
    async with browser(running, running.given.token) as client:
        for path in ["/sign-in", "/static/console.js", "/no-such-page", *PAGES]:
            headers = (await client.get(path)).headers
            if path == "/no-such-page":
                assert "default-src 'none'" in headers["content-security-policy"]
                continue
            policy = headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert "frame-ancestors 'none'" in policy
            assert headers["cache-control"] == "no-store"


async def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(running):
    async with browser(running) as client:
        answer = await client.post("/sign-in", data={"token": running.given.token})
        cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"{COOKIE}=")
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert running.given.token not in cookie


async def test_servers_are_shown_with_what_they_lead_and_keep(running):
    async with browser(running, running.given.token) as client:
        page = (await client.get("/")).text
    (row,) = re.findall(r'<tr data-server="authfabric">(.+?)</tr>', page, flags=re.S)
    assert "current" in row
    leads, keeps = re.findall(r'<td class="number">(\d+)</td>', row)
    assert int(leads) == int(keeps) > 0


async def test_another_host_name_is_refused(running):
    async with browser(running) as client:
        answer = await client.get("/sign-in", headers={"host": "evil.example"})
    assert answer.status_code == 400


async def test_a_viewer_may_do_what_the_policies_say_and_no_more(running):
    async with browser(running, VERA) as client:
        assert "pdp-1" in (await client.get("/")).text
        releases = (await client.get("/releases")).text
        assert "Roll back</a>" not in releases
        assert (await client.get("/edit?file=sales.yaml")).status_code == 403
        word = word_of(releases)
        refused = await client.post("/release", data={"to": "1", "confirm": "roll back to 1", "word": word})
        assert refused.status_code == 403
        assert "may not release" in refused.text
        assert "Revoke</a>" not in (await client.get("/trust")).text
        form = {"name": "pdp-1", "confirm": "revoke pdp-1", "word": word}
        refused = await client.post("/revoke", data=form)
        assert refused.status_code == 403
        assert "may not revoke" in refused.text


async def test_a_token_without_the_right_to_view_lets_nobody_in(running):
    async with browser(running) as client:
        assert (await client.post("/sign-in", data={"token": MALLORY})).status_code == 401


async def test_a_form_without_the_viewers_own_word_changes_nothing(running):
    async with browser(running, running.given.token) as client:
        data = {"to": "1", "confirm": "roll back to 1"}
        assert (await client.post("/release", data=data)).status_code == 403
        assert (await client.post("/release", data={**data, "word": "guessed"})).status_code == 403
        releases = (await client.get("/releases")).text
    assert "release 2" not in releases.lower()


async def test_whoever_signs_out_is_out(running):
    async with browser(running, running.given.token) as client:
        word = word_of((await client.get("/")).text)
        session = client.cookies[COOKIE]
        assert (await client.post("/sign-out", data={"word": word})).status_code == 303
        client.cookies.set(COOKIE, session)
        assert (await client.get("/")).status_code == 303


async def test_what_others_wrote_is_shown_as_text(running):
    await running.ask("<img src=x onerror=alert(1)>")
    async with browser(running, running.given.token) as client:
        text = ""

        async def shown() -> bool:
            nonlocal text
            text = (await client.get("/decisions?subject=onerror")).text
            return "onerror=alert(1)" in text

        while not await shown():
            pass
    assert "&lt;img src=x onerror=alert(1)&gt;" in text
    assert "<img src=x" not in text


async def test_a_question_is_answered_with_the_lines_that_decided(running):
    async with browser(running, VERA) as client:
        answer = (await client.get("/why?subject=alice&object=/sales/q1&action=read")).text
    assert "alice-reads-sales" in answer
    assert 'class="marked"' in answer
    assert "sales.yaml" in answer


async def test_attributes_that_are_no_json_are_named(running):
    async with browser(running, VERA) as client:
        page = await client.get("/why?subject=a&object=b&action=c&context=nonsense")
    assert "context" in page.text
    assert "must be a JSON object" in page.text


async def test_the_stream_tells_of_decisions_that_fit_the_filter(running):
    async with (
        browser(running, VERA) as client,
        client.stream("GET", "/live?subject=sue", timeout=20) as stream,
    ):
        lines = stream.aiter_lines()
        await anext(lines)  # so it listens
        await running.ask("bob")
        await running.ask("sue")
        async for line in lines:
            if line.startswith("data:") and '"rows"' in line:
                assert "sue" in line
                assert "bob" not in line
                break


async def test_an_edit_is_previewed_against_what_was_asked_and_pushed_only_when_confirmed(running):
    assert await running.ask("alice")
    async with browser(running, running.given.token) as client:
        text = (await client.get("/policies?file=sales.yaml")).text
        assert "alice-reads-sales" in text
        word = word_of(text)
        edited = (
            "- uid: carl-reads-sales\n  effect: allow\n"
            '  targets: {subject_id: carl, resource_id: "/sales/*", action_id: read}\n  rules: {}\n'
        )
        form = {"file": "sales.yaml", "text": edited, "word": word}

        async def previewed() -> str:
            return (await client.post("/edit", data=form)).text

        shown = await previewed()
        assert "1 added, 1 removed" in shown
        wrong = await client.post("/release", data={**form, "confirm": "push something"})
        assert wrong.status_code == 409
        done = await client.post(
            "/release", data={**form, "confirm": "push sales.yaml", "message": "carl now"}
        )
        assert (done.status_code, done.headers["location"]) == (303, "/releases?done=2")
    while not await running.ask("carl"):  # until the replicas have it, or the test's time is over
        pass


async def test_a_form_that_nobody_could_have_filled_in_is_no_fault_of_the_console(running):
    """Strangers write nothing into its log."""
    async with browser(running) as client:
        form = {f"field{number}": "x" for number in range(50)}
        assert (await client.post("/sign-in", data=form)).status_code == 400


async def test_a_stranger_has_the_console_keep_no_more_than_a_token(running):
    async with browser(running) as client:
        answer = await client.post("/sign-in", data={"token": "x" * 65_536})
        assert (answer.status_code, "at most 4,096 bytes" in answer.text) == (413, True)


async def test_whoever_may_look_no_more_is_shown_nothing_more(running):
    """The last test of its module: it takes the viewer's right away."""
    async with (
        browser(running, VERA) as client,
        client.stream("GET", "/live", timeout=2 * PATIENCE) as stream,
        asyncio.timeout(PATIENCE),
    ):
        lines = stream.aiter_lines()
        await anext(lines)  # so it listens
        await running.push("alice", CONSOLE_POLICY.replace("[view, ask]", "ask"))
        async for _ in lines:
            pass  # until it ends
