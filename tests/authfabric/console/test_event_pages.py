"""The console of `authfabric up --events` in a real Chromium, beside an application whose attributes are sealed."""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path

from tests.authfabric.test_documents import up
from tests.authfabric.test_event_quickstart import PAGE, run
from tests.browser import axe_script, chromium
from tests.documents import write_files
from tests.waiting import PATIENCE

EVENT = ("nurse=n1", "drug=morphine", "patient=p1")
SHOTS = os.environ.get("AUTHFABRIC_SCREENSHOTS", "")


async def authfabric(*words: str) -> str:
    return await run("-m", "authfabric", *words)


async def test_types_brokers_key_groups_and_who_was_shown_what_are_on_one_page(tmp_path, monkeypatch):
    """The application of the event quickstart: an auditor sees patients under a rule alone, by replays."""
    monkeypatch.chdir(tmp_path)
    write_files(PAGE.split("## 3.")[0], tmp_path)  # the second `surgery.yaml` of the page, with rules
    async with up("--events", "--replicas", "1") as ready, chromium() as browser:
        await authfabric("event", "apply", "surgery.yaml", "--yes")
        await authfabric("event", "publish", "Prescribed", *EVENT, "--as", "surgery")
        assert "patient" not in await authfabric("event", "replay", "Prescribed", "--as", "audrey")
        await authfabric("event", "publish", "Opened", "nurse=n1", "--as", "surgery")
        assert "patient=p1" in await authfabric("event", "replay", "Prescribed", "--as", "audrey")

        page = await browser.new_page(viewport={"width": 1280, "height": 1200})
        page.set_default_timeout(20_000)
        await page.goto(ready["console"])
        await page.wait_for_url("**/")
        await page.goto(page.url.rstrip("/") + "/events")
        brokers, types, groups, shown = (
            page.locator(f"section[aria-labelledby={name}]")
            for name in ("brokers", "types", "groups", "shown")
        )
        for name in ("east", "west"):
            row = brokers.locator("tr", has_text=name)
            assert "in force" in await row.inner_text()
            called = await row.locator("th").inner_text()
            unread = brokers.locator("li", has_text=f"{called}: 0")
            assert await unread.count() == 1
        async with asyncio.timeout(PATIENCE):  # brokers say every ten seconds what they have taken
            while not sum(map(int, re.findall(r"published (\d+)", await brokers.inner_text()))):
                await page.reload()
        assert "patient" in await types.locator("tr", has_text="Prescribed").inner_text()
        holders = {
            attribute: await groups.locator("tbody tr", has_text=attribute).locator("code").count()
            for attribute in ("drug", "patient")
        }
        assert holders == {"drug": 2, "patient": 1}  # a broker that cannot read it cannot give it away
        replayed = shown.locator("tr", has_text="audrey").filter(has_text="investigated")
        await replayed.first.wait_for()
        told = await replayed.first.inner_text()
        assert "replayed" in told
        assert "patient" in told
        if SHOTS:
            await page.screenshot(path=str(Path(SHOTS) / "console-events.png"), full_page=True)
        if script := axe_script():
            await page.evaluate(script)
            found = await page.evaluate("axe.run().then(found => found.violations)")
            assert not [each for each in found if each["impact"] in ("serious", "critical")], json.dumps(
                found
            )
