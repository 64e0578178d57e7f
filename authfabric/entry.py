"""Where `authfabric` starts. The version and the list of commands are said before anything else is loaded."""

import contextlib
import gc
import os
import sys

from authfabric import __version__
from authfabric.command_table import OPTIONS, PURPOSE, SECTIONS

MAX_COLUMNS = 80
MIN_WIDTH = 50


def main() -> None:
    try:
        try:
            _run(sys.argv[1:])
        finally:
            sys.stdout.flush()
    except OSError as error:  # a full disk, a file that may not be read
        _fail(error)
    except Exception as error:
        from authz import AuthFabricError

        if not isinstance(error, AuthFabricError):
            raise
        _fail(error)


def _fail(error: Exception) -> None:
    """End a command that could not be done, in one line."""
    from authfabric.terminal import Exit

    print(f"error: {error}", file=sys.stderr)
    with contextlib.suppress(OSError):  # what could not be written is not tried again when Python ends
        sys.stdout.close()
    sys.exit(Exit.FAILED)


def _run(words: list[str]) -> None:
    if words == ["--version"]:
        print(f"authfabric {__version__}")
    elif words == ["--help"]:
        print(overview(_columns()))
    else:
        gc.disable()  # what is loaded stays; looking through it for garbage is a tenth of what `ask` takes
        from authfabric.cli import main as run_command

        run_command()


def overview(columns: int) -> str:
    """What `authfabric --help` prints, as it would be composed from the commands themselves."""
    width = max(min(columns, MAX_COLUMNS) - 2, MIN_WIDTH)
    lines = ["Usage: authfabric [OPTIONS] COMMAND [ARGS]...", ""]
    lines += [f"  {line}" for line in _wrapped(PURPOSE, width - 2)]
    lines += _section("Options", OPTIONS, width)
    for title, commands in SECTIONS.items():
        lines += _section(title, {name: sentence for name, (_, sentence) in commands.items()}, width)
    return "\n".join(lines)


def _section(title: str, rows: dict[str, str], width: int) -> list[str]:
    column = max(map(len, rows)) + 2
    lines = ["", f"{title}:"]
    for name, sentence in rows.items():
        first, *rest = _wrapped(sentence, width - column - 2)
        lines.append(f"  {name:{column}}{first}")
        lines += [f"  {'':{column}}{line}" for line in rest]
    return lines


def _wrapped(text: str, width: int) -> list[str]:
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append(word)
        else:
            lines[-1] += f" {word}" if lines[-1] else word
    return lines


def _columns() -> int:
    """How wide the terminal is."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given):
        return int(given)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else 1).columns
    except (OSError, ValueError):
        return MAX_COLUMNS
