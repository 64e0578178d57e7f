"""Text with marks such as `[bold red]error:[/]`, for terminals that show colours and for all else.

The marks are those of rich, which draws tables and progress; a line needs no more than this, and starts at once.
"""

from __future__ import annotations

import os
import re
from typing import TextIO

_TAG = re.compile(r"(\\*)\[([a-z#/@][^\[]*?)\]")
_CODES = {
    "bold": "1", "dim": "2", "italic": "3", "red": "31", "green": "32", "yellow": "33", "blue": "34",
    "magenta": "35", "cyan": "36",
}  # fmt: skip
_END = "\x1b[0m"
_NOTHING = "@"
"""A mark without effect: it parts backslashes from a mark that follows."""


def escape(text: str) -> str:
    """Text in which nothing is a mark, and nothing but the ends of lines is what a terminal obeys."""
    if not text.isprintable():
        text = "".join(each if each.isprintable() or each in "\n\t" else repr(each)[1:-1] for each in text)
    text = _TAG.sub(lambda found: f"{found[1] * 2}\\[{found[2]}]", text)
    trailing = len(text) - len(text.rstrip("\\"))
    if not trailing:
        return text
    return text + "\\" * trailing + f"[{_NOTHING}]"  # or they would escape the mark that comes next


def render(text: str, colours: bool) -> str:
    """What is shown of a marked text."""
    styles: list[str] = []
    parts, at = [], 0
    for found in _TAG.finditer(text):
        slashes, mark = found[1], found[2]
        parts += [text[at : found.start()], "\\" * (len(slashes) // 2)]
        at = found.end()
        if len(slashes) % 2:
            parts.append(f"[{mark}]")
        elif colours and mark != _NOTHING:
            parts.append(_style(styles, mark))
    shown = "".join([*parts, text[at:]])
    return shown + _END if styles and colours else shown


def shows_colours(stream: TextIO) -> bool:
    """Whether a stream is a terminal that shows them, and nobody has asked for none."""
    return (
        stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") not in ("dumb", "unknown")
    )


def _style(styles: list[str], mark: str) -> str:
    """What begins a style, or ends the last that began."""
    if not mark.startswith("/"):
        styles.append(";".join(_CODES[word] for word in mark.split() if word in _CODES))
        return f"\x1b[{styles[-1]}m" if styles[-1] else ""
    if styles:
        styles.pop()
    return _END + "".join(f"\x1b[{each}m" for each in styles if each)
