"""The console in a real Chromium, on a real fabric, as somebody who keeps it open all day sees it.

The screenshots in docs/images come from here: `AUTHFABRIC_SCREENSHOTS=docs/images pytest` on this file.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
from pathlib import Path

import pytest
import pytest_asyncio

from tests.authfabric.console.running import VERA, place
from tests.browser import axe_script, chromium

pytestmark = pytest.mark.asyncio(loop_scope="module")
SHOTS = os.environ.get("AUTHFABRIC_SCREENSHOTS", "")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser():
    async with chromium() as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(browser, tmp_path_factory):
    async with place(tmp_path_factory.mktemp("console")) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser, running):
    """The operator's, signed in by the link that `console serve` prints."""
    context = await browser.new_context(viewport={"width": 1280, "height": 860})
    page = await context.new_page()
    page.set_default_timeout(20_000)
    page.troubles = []
    page.on("pageerror", lambda error: page.troubles.append(str(error)))
    page.on("console", lambda said: page.troubles.append(said.text) if said.type == "error" else None)
    await page.goto(running.served.link)
    await page.wait_for_url(running.served.address)
    yield page
    assert not page.troubles
    await context.close()


async def shoot(page, name: str) -> None:
    if SHOTS:
        await page.screenshot(path=str(Path(SHOTS) / f"console-{name}.png"))


async def go(page, running, path: str) -> None:
    await page.goto(running.served.address.rstrip("/") + path)


async def test_a_decision_appears_in_the_log_and_says_why(page, running):
    await go(page, running, "/decisions")
    await page.wait_for_function("document.getElementById('link').textContent === 'Live'")
    assert await running.ask("alice")
    assert not await running.ask("bob", "/sales/q2", "write")
    row = page.locator("tr", has_text="/sales/q2")
    await row.first.wait_for()
    assert "deny" in await row.first.inner_text()
    assert "no-policy" in await row.first.inner_text()
    allowed = page.locator("tr", has_text="alice")
    assert "alice-reads-sales" in await allowed.first.inner_text()
    await allowed.first.get_by_role("link", name="why").click()
    await page.locator(".marked").first.wait_for()
    assert "alice-reads-sales" in await page.locator("figure.decides").inner_text()
    await shoot(page, "why")


async def test_the_log_shows_only_what_fits_the_filter(page, running):
    await running.ask("carl", "/filtered/1")
    await running.ask("dora", "/filtered/2")
    await go(page, running, "/decisions?subject=dora")
    await page.locator("tr", has_text="/filtered/2").first.wait_for()
    assert await page.locator("tr", has_text="/filtered/1").count() == 0


async def test_a_push_moves_member_by_member_and_a_rollback_restores(page, running):
    await go(page, running, "/releases")
    pushed = (await running.push("zoe")).released
    for name in ("pdp-1", "pdp-2"):
        row = page.locator(f'tr[data-member="{name}"][data-state="in force"]', has_text=pushed.hash[:8])
        await row.wait_for()
    assert not await running.ask("alice")
    await page.reload()
    await page.get_by_role("link", name="Roll back").last.click()
    await page.get_by_text("1 added, 1 removed").wait_for()
    await page.get_by_role("button").last.click()  # without the words nothing happens
    await page.locator("input[name=confirm]").fill("roll back to 1")
    await shoot(page, "rollback")
    await page.get_by_role("button", name="Roll back to release 1").click()
    await page.get_by_text("back to release 1 (by operator in the console)").first.wait_for()
    await page.locator('tr[data-member="pdp-1"][data-state="in force"]', has_text="3 ").wait_for()
    await page.locator('tr[data-member="pdp-2"][data-state="in force"]', has_text="3 ").wait_for()
    assert await running.ask("alice")


async def test_a_killed_replica_turns_red_and_one_that_comes_back_green(page, running):
    await go(page, running, "/")
    await page.locator('tr[data-member="pdp-2"][data-state="in force"]').wait_for()
    os.kill(running.fabric.replicas["pdp-2"].pid, signal.SIGKILL)
    await page.locator('tr[data-member="pdp-2"][data-state="silent"] .tag.bad').wait_for()
    await running.add("pdp-2")  # under a key of its own, so both are named with their keys
    await page.locator('tr[data-member^="pdp-2"][data-state="in force"]').wait_for()


async def test_a_viewer_without_the_right_sees_no_button(browser, running):
    context = await browser.new_context()
    page = await context.new_page()
    await go(page, running, "/sign-in")
    await page.get_by_label("Token").fill(VERA)
    await page.get_by_role("button", name="Sign in").click()
    await page.get_by_role("heading", name="Overview").wait_for()
    for path in ("/releases", "/policies"):
        await go(page, running, path)
        assert await page.get_by_role("link", name="Roll back").count() == 0
        assert await page.get_by_role("link", name="Edit").count() == 0
    await context.close()


async def test_it_is_used_by_keyboard_and_fits_a_phone_in_the_dark(browser, running):
    context = await browser.new_context(viewport={"width": 390, "height": 844}, color_scheme="dark")
    page = await context.new_page()
    await page.goto(running.served.link)
    await page.wait_for_url(running.served.address)
    await page.keyboard.press("g")
    await page.keyboard.press("d")
    await page.wait_for_url("**/decisions")
    await page.keyboard.press("/")
    assert await page.evaluate("document.activeElement.name") == "subject"
    for path in ("/", "/decisions", "/why", "/search", "/policies", "/releases", "/events", "/trust"):
        await go(page, running, path)
        wide = await page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert wide <= 0, path
    await go(page, running, "/")
    await page.locator('tr[data-member="pdp-1"]').wait_for()
    await shoot(page, "phone")
    await context.close()


async def test_policies_show_their_tests_coverage_and_use(page, running):
    await go(page, running, "/policies?file=sales.yaml")
    tested = page.locator("section", has_text="Tests and use").last
    await tested.get_by_text("2 of 3 cases pass").wait_for()
    assert "nobody writes: expected allow, got deny" in await tested.inner_text()
    assert "1 of 3 policies decided some case (33 %)" in await tested.inner_text()
    await shoot(page, "policies")


async def test_a_search_finds_who_may_and_leads_to_why(page, running):
    await go(page, running, "/search")
    await page.get_by_label("Object", exact=True).fill("/sales/q1")
    await page.get_by_label("Action").fill("read")
    await page.get_by_role("button", name="Search").click()
    await page.get_by_role("heading", name="1 subject").wait_for()
    await page.get_by_role("link", name="alice", exact=True).click()
    await page.locator(".marked").first.wait_for()


async def test_recycling_and_times_are_plotted(page, running):
    await go(page, running, "/")
    asking = asyncio.create_task(running.recycle("alice"))
    await page.locator(".legend", has_text=re.compile(r"precise [1-9]")).wait_for()
    figure = page.locator("figure", has_text="Time of PDPs")
    await figure.locator(".legend", has_text="ms").first.wait_for()
    assert await figure.locator("polyline").count() == 3
    await shoot(page, "overview")
    asking.cancel()
    await asyncio.wait([asking])


async def test_capabilities_are_drawn_and_a_member_is_revoked_by_typing(page, running):
    await go(page, running, "/trust")
    await page.locator('tr[data-holder="web"]').wait_for()
    assert await page.locator("svg.graph g.holder", has_text="web").count() == 1
    await shoot(page, "trust")
    await page.locator('tr[data-holder="web"]').get_by_role("link", name="Revoke").click()
    await page.get_by_label("Type revoke web to confirm").fill("revoke web")
    await page.get_by_role("button", name="Revoke web").click()
    await page.wait_for_url("**/trust")
    assert await page.locator('tr[data-holder="web"]').count() == 0


async def test_a_viewer_signs_in_by_a_provider_of_identities(browser, running):
    context = await browser.new_context(ignore_https_errors=True)
    page = await context.new_page()
    await go(page, running, "/sign-in")
    await page.get_by_role("link", name="Sign in by 127.0.0.1").click()
    await page.get_by_role("link", name="nina").click()
    await page.get_by_role("heading", name="Overview").wait_for()
    assert "nina" in await page.locator("header").inner_text()
    await context.close()


@pytest.mark.skipif(not axe_script(), reason="axe-core was not fetched: `make test` does that by npm")
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_nothing_serious_stands_between_a_page_and_assistive_technology(browser, running, scheme):
    context = await browser.new_context(color_scheme=scheme, bypass_csp=True)
    page = await context.new_page()
    await page.goto(running.served.link)
    await page.wait_for_url(running.served.address)
    why = "/why?subject=alice&object=/sales/q1&action=read"
    found = "/search?object=/sales/q1&action=read"
    forms = "/release?to=1", "/diff?from=1&to=2", "/revoke?name=pdp-1", "/edit?file=sales.yaml", "/sign-in"
    for path in (
        "/", "/decisions", why, found, "/policies", "/releases", "/events", "/trust", *forms,
    ):  # fmt: skip
        await go(page, running, path)
        await page.evaluate(axe_script())
        found = await page.evaluate("axe.run().then(found => found.violations)")
        serious = [each for each in found if each["impact"] in ("serious", "critical")]
        assert not serious, (path, [(each["id"], each["nodes"][0]["html"]) for each in serious])
    await context.close()
