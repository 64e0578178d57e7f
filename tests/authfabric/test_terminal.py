"""How commands end, and what they print of what others wrote."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest
import typer

from authfabric.terminal import Exit, printable, run
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
