"""How commands end, and what they print of what others wrote."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest
import typer
from typer.testing import CliRunner

from authfabric.cli import app
from authfabric.terminal.output import Exit, printable, program, run, say_table, waiting
from authz import AuthFabricError


@pytest.fixture(autouse=True)
def as_in_a_new_process():
    """Commands that ran here before may have left their own ways with signals."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


async def interrupted(number: signal.Signals, tidied: list[str]) -> None:
    try:
        os.kill(os.getpid(), number)
        await asyncio.sleep(60)
    finally:
        tidied.append("all")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_work_after_it_has_tidied_up(number):
    tidied: list[str] = []
    with pytest.raises(typer.Exit) as raised:
        run(interrupted(number, tidied))
    assert (raised.value.exit_code, tidied) == (128 + number, ["all"])


def test_an_error_of_the_fabric_is_one_line_and_a_code(capsys):
    async def broken() -> None:
        raise AuthFabricError("the [bold]store[/] is away")

    with pytest.raises(typer.Exit) as raised:
        run(broken())
    assert raised.value.exit_code == Exit.FAILED
    assert capsys.readouterr().err == "error: the [bold]store[/] is away\n"


def test_what_could_pass_for_output_is_written_out():
    assert printable("/sales/New York/日本") == "/sales/New York/日本"
    assert printable("a\nb\x1b[2K\u202e") == r"a\nb\x1b[2K\u202e"


def test_a_table_cuts_nothing_however_narrow_the_terminal(capsys):
    long = "investigation_opened_" * 5
    say_table(("type", "events"), [(long, "1,200"), ("[red]vitals[/]", "7")])
    assert capsys.readouterr().out.splitlines() == [
        "type" + " " * (len(long) - 4) + "  events",
        long + "   1,200",
        "vitals" + " " * (len(long) - 6) + "       7",
    ]


def test_where_no_terminal_is_what_takes_long_is_said_in_a_line_and_to_programs_not_at_all(capsys):
    with waiting("starting three replicas"):
        assert capsys.readouterr().err == "starting three replicas …\n"
    with waiting("starting three replicas", quiet=True):
        assert capsys.readouterr().err == ""


def test_what_is_to_be_typed_next_can_be_copied_where_the_command_is_on_no_path(monkeypatch, tmp_path):
    here = tmp_path / "authfabric"
    here.touch(mode=0o755)
    monkeypatch.setattr("sys.argv", [str(here), "up"])
    monkeypatch.setenv("PATH", "")
    assert program() == str(here)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program() == "authfabric"


def test_policies_without_cases_are_not_said_to_have_passed(tmp_path):
    (tmp_path / "p.yaml").write_text("- {uid: all, effect: allow, targets: {}, rules: {}}\n")
    result = CliRunner().invoke(app, ["policy", "test", str(tmp_path)])
    assert (result.exit_code, result.stdout) == (
        1,
        "no cases: write some in `cases.yaml` beside the policies\n",
    )
