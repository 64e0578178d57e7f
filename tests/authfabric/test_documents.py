"""What the pages about policies show is what happens."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.documents import run_examples
from tests.waiting import printed_document

CONCEPTS = Path(__file__).parents[2] / "docs/concepts"


@contextlib.asynccontextmanager
async def up(*options: str) -> AsyncIterator[dict[str, Any]]:
    """`authfabric up`, for the length of a block; what it says when it is ready."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "authfabric", "up", "--port", "-1", "--json", *options,
        stdout=asyncio.subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    ready = await printed_document(process)
    try:
        yield ready
    finally:
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0


def test_the_page_about_policies(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_examples(CONCEPTS / "policies.md", tmp_path) == 4


def test_the_page_about_events(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_examples(CONCEPTS / "events.md", tmp_path) == 11


@pytest.mark.parametrize(("page", "examples"), [("bundles.md", 6), ("search.md", 5)])
async def test_the_pages_about_releases(page, examples, tmp_path, monkeypatch):
    async with up():
        monkeypatch.chdir(tmp_path)
        assert await asyncio.to_thread(run_examples, CONCEPTS / page, tmp_path) == examples
