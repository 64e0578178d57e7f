"""The event quickstart: what a newcomer types works, from nothing to an audited investigation."""

from __future__ import annotations

import asyncio
import re
import shlex
import sys
from pathlib import Path

from authfabric.processes.launcher import ReplicaProcess
from tests.authfabric.test_documents import up
from tests.documents import run_examples
from tests.waiting import once_it_works

PAGE = (Path(__file__).parents[2] / "docs" / "event-quickstart.md").read_text()
SERVE = re.search(r"^authfabric (broker serve .*)$", PAGE, re.MULTILINE)[1]
SHOWN = re.search(r"^\$ python surgery.py\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[1]


async def run_part(text: str, folder: Path) -> int:
    page = folder / "page.md"
    page.write_text(text)
    return await asyncio.to_thread(run_examples, page, folder)


async def test_what_the_page_shows_is_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before, _, rest = PAGE.partition("## 4.")
    seen, _, audited = rest.partition("## 5.")
    async with up():
        assert await run_part(before, tmp_path) == 18
        broker = await ReplicaProcess.launch("east", shlex.split(SERVE))
        try:
            assert await run_part(seen, tmp_path) == 0
            script = await asyncio.create_subprocess_exec(
                sys.executable, "surgery.py", stdout=asyncio.subprocess.PIPE
            )
            printed, _ = await script.communicate()
            assert printed.decode() == SHOWN
            # what was shown is in the stream a moment after it was shown
            assert await once_it_works(lambda: run_part(audited, tmp_path), AssertionError) == 4
        finally:
            assert await broker.stop() == 0
