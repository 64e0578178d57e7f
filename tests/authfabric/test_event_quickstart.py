"""The event quickstart: what a newcomer types works, from an empty folder to a sealed event and an investigation."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import sys
from pathlib import Path

from tests.authfabric.test_documents import up
from tests.documents import matches, turns, write_files
from tests.waiting import once_it_works

PAGE = (Path(__file__).parents[2] / "docs" / "event-quickstart.md").read_text()
FIRST, SECOND, THIRD = re.split(r"^## [123]\. .*$", PAGE, flags=re.MULTILINE)[1:]
ENCRYPTION = (Path(__file__).parents[2] / "docs" / "concepts" / "encryption.md").read_text()
SHOWN = re.search(r"^\$ python surgery.py\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[1]
UP = re.search(r"^authfabric (up .*)$", PAGE, re.MULTILINE)[1]


async def run(*words: str) -> str:
    """What a command prints, in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await process.communicate()
    assert process.returncode == 0, (words, printed)
    return printed.decode()


async def run_part(text: str, folder: Path) -> int:
    """Write the files of a part of the page and run its commands; returns how many."""
    write_files(text, folder)
    commands = turns(text)
    for command, expected in commands:
        printed = await run("-m", "authfabric", *shlex.split(command))
        assert matches(expected, printed), f"`{command}` printed\n{printed}\nnot\n{expected}"
    return len(commands)


async def test_what_the_page_shows_is_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with up(*shlex.split(UP)[1:], "--replicas", "1"):
        assert await run_part(FIRST, tmp_path) == 4  # and `up` itself: five commands, one file
        before, _, audited = SECOND.partition("The past is shown")
        assert await run_part(before, tmp_path) == 6
        # what was shown is in the stream a moment after it was shown
        assert await once_it_works(lambda: run_part(audited, tmp_path), AssertionError) == 3
        write_files(THIRD, tmp_path)
        assert await run("surgery.py") == SHOWN


async def test_the_page_about_encryption(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with up("--events", "--replicas", "1"):
        first, second = ENCRYPTION.split("Who holds which key")
        assert await run_part(first, tmp_path) == 1
        manager = Path(os.environ["XDG_DATA_HOME"]) / "authfabric/applications/sightings/manager.key"
        words = ("-m", "authfabric", "keys", "status", "Sighting", "--key", str(manager), "--json")
        assert members(await run(*words)) == {"location": 1, "numberplate": 2, "sighted": 2}
        assert await run_part(second, tmp_path) == 2
        assert members(await run(*words)) == {"location": 1, "numberplate": 2, "sighted": 1}


def members(status: str) -> dict[str, int]:
    """How many brokers hold the key of each attribute."""
    return {
        name: sum(not member["leaving"] for member in group["members"])
        for group in json.loads(status)["groups"]
        for name in group["attributes"]
    }
