"""How commands speak: tables and colours for people, one JSON document for programs, exit codes for scripts."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Annotated, NoReturn, TextIO, TypeVar

import msgspec
import typer

from authfabric.terminal.markup import escape, render, shows_colours
from authz import AuthFabricError
from bus.errors import NotConnected
from bus.runtime import run_fast

if TYPE_CHECKING:
    from rich.console import Console

    out: Console
    err: Console
Result = TypeVar("Result")

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
Url = Annotated[
    str | None,
    typer.Option("--url", help="The NATS server. Default: $AUTHFABRIC_NATS_URL, or the running `up`."),
]


START = "start one with `authfabric up`, or name one that runs by AUTHFABRIC_NATS_URL"


class Exit(enum.IntEnum):
    """What exit codes mean, for every command."""

    OK = 0
    DENIED = 1
    """The answer is no: denied, not passed, not well."""
    USAGE = 2
    """The command was called wrongly."""
    FAILED = 3
    """The work could not be done: the fabric is not there, or something broke."""


def print_json(value: object, *, line: bool = False) -> None:
    """Print one document; with `line` in a single line, as one of many."""
    encoded = msgspec.json.encode(value)
    sys.stdout.buffer.write((encoded if line else msgspec.json.format(encoded, indent=2)) + b"\n")
    sys.stdout.flush()


def __getattr__(name: str) -> Console:
    if name not in ("out", "err"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _console(name)


@cache
def _console(name: str) -> Console:
    """`out` or `err`, for what takes more than a line: made when first used, since rich takes long to load."""
    from rich.console import Console

    return Console(stderr=name == "err", soft_wrap=name == "err" and not sys.stderr.isatty())


def say(text: str, *, to: TextIO | None = None) -> None:
    """Print one line, marked up, which the terminal's width does not break."""
    stream = to or sys.stdout
    print(render(text, shows_colours(stream)), file=stream, flush=True)


def warn(several: Iterable[str]) -> None:
    """Say what is probably a mistake, a line each, beside what is written to the output."""
    for each in several:
        say(f"[yellow]warning[/]: {escape(each)}", to=sys.stderr)


def say_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows under headings, all marked up; a column is as wide as its widest cell, so that nothing is cut."""
    from rich.text import Text

    console = _console("out")
    lines = [[Text.from_markup(cell) for cell in line] for line in (headings, *rows)]
    for column in zip(*lines, strict=True):
        width = max(cell.cell_len for cell in column)
        right = all(cell.plain.replace(",", "").isdigit() for cell in column[1:])
        for cell in column:
            cell.align("right" if right and len(column) > 1 else "left", width)
    for cell in lines[0]:
        cell.stylize("bold")
    for line in lines:
        whole = Text("  ").join(line)
        whole.rstrip()
        console.print(whole, highlight=False, soft_wrap=True)


def counted(count: int, noun: str) -> str:
    """A count with its noun: `1 event`, `2,000 events`."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


@contextlib.contextmanager
def waiting(text: str, quiet: bool = False) -> Iterator[None]:
    """Say what is being done, on a terminal with something that moves until it is."""
    if quiet:
        yield
    elif sys.stderr.isatty():
        with _console("err").status(f"{text} …"):
            yield
    else:
        say(f"{text} …", to=sys.stderr)
        yield


def program() -> str:
    """What to type to call this command again, so that what is printed can be copied."""
    return "authfabric" if shutil.which("authfabric") or not os.access(sys.argv[0], os.X_OK) else sys.argv[0]


def printable(text: str) -> str:
    """Text that others chose, such as a name, with whatever could pass for the command's own output written out."""
    return escape(text.replace("\n", r"\n").replace("\t", r"\t"))


def command_line() -> str:
    """The command as it was typed, for reports to tell how to repeat them."""
    return shlex.join(["authfabric", *sys.argv[1:]])


def fail(error: AuthFabricError | str, code: Exit = Exit.FAILED) -> NoReturn:
    """End the command with a message."""
    text = f"{error}: {START}" if _nobody_listens(error) else str(error)
    say(f"[bold red]error:[/] {escape(text)}", to=sys.stderr)
    raise typer.Exit(code)


def _nobody_listens(error: AuthFabricError | str) -> bool:
    return isinstance(error, NotConnected) and error.problem == "connection refused"


def run(work: Coroutine[object, object, Result], *, brief: bool = False) -> Result:
    """Run a command's work on a fast event loop; errors of the fabric become one line and an exit code.

    Ctrl-C and SIGTERM end it, but not before it has tidied up. Brief work is over before a fast loop is loaded.
    """
    try:
        return (asyncio.run if brief else run_fast)(_until_terminated(work))
    except AuthFabricError as error:
        fail(error)
    except KeyboardInterrupt:
        raise typer.Exit(128 + signal.SIGINT) from None
    except asyncio.CancelledError:
        raise typer.Exit(128 + signal.SIGTERM) from None


async def _until_terminated(work: Coroutine[object, object, Result]) -> Result:
    task = asyncio.current_task()
    assert task is not None
    with contextlib.suppress(ValueError, RuntimeError):  # only the main thread hears signals
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await work
