"""What the pages show works: their Python runs, their commands print what they say, their links lead somewhere."""

import ast
import asyncio
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    "README.md",
    "docs/quickstart.md",
    "docs/concepts/in-process.md",
    "docs/frameworks.md",
    "docs/caching.md",
    "docs/concepts/lists.md",
    "docs/concepts/search.md",
    "docs/errors.md",
]
ALL_PAGES = sorted(
    str(page.relative_to(ROOT))
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]
)


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / page).read_text(), re.S | re.M)


@pytest.mark.parametrize("page", PAGES)
def test_every_python_block_runs(page: str, running_fabric: str) -> None:
    assert blocks(page, "python")
    for block in blocks(page, "python"):
        code = compile(block, page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        waiting = eval(code, {})
        if waiting is not None:
            asyncio.run(waiting)


@pytest.mark.parametrize(("page", "count"), [("docs/quickstart.md", 3), ("docs/concepts/asking.md", 1)])
def test_a_page_shows_what_ask_really_prints(page: str, count: int, running_fabric: str) -> None:
    transcript = next(block for block in blocks(page, "console") if block.startswith("$ "))
    turns = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", transcript, re.M)
    assert len(turns) == count
    for command, expected in turns:
        program, echo, _ = command.partition("; echo $?")
        words = [sys.executable, "-m", *shlex.split(program)]
        done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, check=False)
        printed = done.stdout + (f"{done.returncode}\n" if echo else "")
        assert [line.split() for line in printed.splitlines()] == [
            line.split() for line in expected.splitlines()
        ]


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_every_example_runs(example: Path, running_fabric: str) -> None:
    done = subprocess.run(
        [sys.executable, str(example)], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.parametrize("page", ALL_PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    text = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(), flags=re.S | re.M)
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        if not target.startswith("http"):
            assert (ROOT / page).parent.joinpath(target).exists(), (
                f"{page} links to {target}, which is not there"
            )


def test_the_index_leads_to_every_page() -> None:
    index = (ROOT / "docs/README.md").read_text()
    pages = [page.relative_to(ROOT / "docs") for page in ROOT.glob("docs/**/*.md")]
    missing = [
        str(page)
        for page in pages
        if page.parts[0] not in ("design", "README.md") and f"({page})" not in index
    ]
    assert missing == []


@pytest.mark.parametrize("page", [page for page in ALL_PAGES if page != "CHANGELOG.md"])
def test_lines_are_short_but_for_tables_code_and_links(page: str) -> None:
    text = re.sub(r"^ *```.*?^ *```", "", (ROOT / page).read_text(), flags=re.S | re.M)
    prose = [
        re.sub(r"\]\([^)]*\)", "]", line) for line in text.splitlines() if not line.lstrip().startswith("|")
    ]
    assert [line for line in prose if len(line) > 120] == []  # wrap them, or make a table of them
