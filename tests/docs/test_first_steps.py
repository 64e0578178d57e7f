"""First steps: what `init` writes is what the page lists, the service answers as it shows, and `why.py` says why."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from authfabric.commands.begin.init import Framework, init
from bus.server import free_ports
from tests.documents import matches, write_files
from tests.pep.integrations.services import wait_until

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/first-steps.md").read_text()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pytest.importorskip("fastapi")
    init(tmp_path, Framework.FASTAPI)
    return tmp_path


@pytest.fixture
def service(folder: Path) -> Iterator[httpx.Client]:
    (port,) = free_ports(1)
    command = [sys.executable, "service.py", str(port)]
    with (
        subprocess.Popen(command, cwd=folder, env=environment(folder)) as running,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client,
    ):
        try:
            wait_until(lambda: client.get("/notes"), running)
            yield client
        finally:
            running.kill()


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{ROOT}:{folder}"}


def turns(word: str) -> list[tuple[str, str]]:
    """The page's commands that begin with this word, and what they print."""
    return re.findall(rf"^\$ ({word}.*)\n((?:(?!\$ |```).*\n)*)", PAGE, re.MULTILINE)


def test_the_files_are_those_that_the_page_lists(folder: Path):
    listed = re.findall(r"^\| `([\w./]+)` \|", PAGE, re.MULTILINE)
    written = [str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file()]
    assert sorted(listed) == sorted(written)


def test_the_service_answers_as_the_page_shows(service: httpx.Client):
    shown = turns("curl")
    assert len(shown) == 3
    for command, expected in shown:
        *_, header, address = shlex.split(command)
        name, _, value = header.partition(": ")
        answer = service.get(address.removeprefix("localhost:8000"), headers={name: value})
        assert answer.text == expected.strip(), command


def test_the_page_says_why(folder: Path):
    write_files(PAGE, folder)
    ((command, expected),) = turns("python why")
    words = [sys.executable, *command.split()[1:]]
    done = subprocess.run(
        words, cwd=folder, env=environment(folder), capture_output=True, text=True, check=True
    )
    assert matches(expected, done.stdout), done.stdout
