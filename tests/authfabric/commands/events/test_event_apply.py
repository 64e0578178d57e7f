"""`authfabric event apply|plan|stubs`: nobody loses anything by it without a yes, and classes are made by a file."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
from pathlib import Path

from typer.testing import CliRunner

from authfabric.cli import app
from tests.authfabric.test_documents import up

BEFORE = """
owner: nhs
types:
  Prescribed: {attributes: {drug: string, ward: string, patient: 'string, sealed'}}
brokers: {east: {}}
clients:
  surgery: {publishes: [Prescribed]}
  doctor: {subscribes: {Prescribed: all}}
"""
AFTER = BEFORE.replace("ward: string, ", "").replace("  doctor: {subscribes: {Prescribed: all}}\n", "")
LOST = [
    "surgery: 4 changes",
    "  ~ the type Prescribed: ward goes",
    "  - the client doctor, and its profile",
    "  ~ policies: what the clients may, beside the 1 file of policies in force",
]


async def told(*words: str, text: str = "") -> tuple[int, str, str]:
    """The exit code of a command, what it prints and what it says, without a terminal."""
    result = await asyncio.to_thread(CliRunner().invoke, app, words, input=text)
    return result.exit_code, result.stdout, result.stderr


async def stored() -> list[str]:
    """The types that are in the store, and the releases of policies."""
    found = [await told(*words, "--json") for words in (("type", "list"), ("policy", "list"))]
    assert [code for code, _, _ in found] == [0, 0]
    return [printed for _, printed, _ in found]


def kept() -> dict[str, bytes]:
    """The files of the application and the profiles, which clients and processes read."""
    folder = Path(os.environ["XDG_DATA_HOME"]) / "authfabric"
    found = [each for part in ("applications", "profiles") for each in (folder / part).rglob("*")]
    return {str(each): each.read_bytes() for each in found if each.is_file()}


async def test_nobody_loses_anything_without_a_yes(tmp_path):
    file = tmp_path / "surgery.yaml"
    file.write_text(BEFORE)
    async with up("--events", "--replicas", "1"):
        assert (await told("event", "apply", str(file)))[0] == 0
        before, files = await stored(), kept()
        assert "profiles/doctor.json" in " ".join(files)
        file.write_text(AFTER)
        for answer, words in (("n\n", ()), ("", ("--json",))):  # a no, and nobody there
            code, printed, said = await told("event", "apply", str(file), *words, text=answer)
            assert code == 1
            assert said.endswith("nothing was changed\n")
            assert "Some of it takes something away" in said
            assert words or printed.splitlines()[:4] == LOST
        assert (await stored(), kept()) == (before, files)
        code, planned, _ = await told("event", "plan", str(file), "--json")
        losses = [each["what"] for each in json.loads(planned)["changes"] if each["loses"]]
        assert losses == ["the type Prescribed: ward goes", "the client doctor, and its profile"]
        code, printed, _ = await told("event", "apply", str(file), "--yes")
        assert (code, printed.splitlines()[:4]) == (0, LOST)
        after, files = await stored(), kept()
        assert after[0] != before[0]
        assert after[1] != before[1]
        assert "profiles/doctor.json" not in " ".join(files)
        code, printed, _ = await told("event", "apply", str(file))
        assert (code, printed.splitlines()[0]) == (0, "surgery: all is as the file says")


async def test_where_nobody_runs_them_the_command_lines_are_told(tmp_path):
    file = tmp_path / "surgery.yaml"
    file.write_text(BEFORE)
    async with up("--replicas", "1"):
        code, printed, _ = await told("event", "apply", str(file))
    _, _, commands = printed.partition("start them by hand, each with credentials of its own:\n")
    words = [shlex.split(each)[1:] for each in commands.splitlines()]
    assert (code, [each[:2] for each in words]) == (0, [["keys", "serve"], ["broker", "serve"]])
    assert {each[each.index("--key") + 1] for each in words} <= kept().keys()


def test_stubs_are_classes_for_the_types_of_a_file(tmp_path):
    file, made = tmp_path / "surgery.yaml", tmp_path / "events.py"
    file.write_text(BEFORE)
    result = CliRunner().invoke(app, ["event", "stubs", str(file), "--out", str(made)])
    assert result.exit_code == 0, result.output
    assert CliRunner().invoke(app, ["event", "stubs", str(file)]).stdout == made.read_text()
    namespace: dict[str, object] = {"__name__": "events"}
    exec(compile(made.read_text(), str(made), "exec", dont_inherit=True), namespace)
    prescribed = namespace["Prescribed"](drug="morphine", ward="A", patient="p1")
    assert prescribed.drug == "morphine"
    refused = CliRunner().invoke(app, ["event", "stubs", str(tmp_path / "none.yaml")])
    assert refused.exit_code == 3
