"""The one layout of files of rules, with the comments that people put there.

A comment stays before the rule that it stood before or in; those after the last rule stay at the end.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from authz.rules.reader import parse_rules
from authz.rules.syntax import Rule
from authz.rules.writer import write_rule

_PIECE = re.compile(r"""'(?:[^']|'')*'|"(?:[^"\\]|\\.)*"|(?P<comment>--[^\n]*|\#[^\n]*)|\S""")


@dataclass(frozen=True, slots=True)
class _Comment:
    text: str
    line: int
    inside: bool
    """Whether it stands within a rule: then it belongs to that one, not to the next."""


def format_rules(text: str, source: str = "") -> str:
    """The same rules and comments, laid out. Raises InvalidSyntax."""
    rules = parse_rules(text, source)
    comments = list(_comments(text, rules))
    starts = [rule.place[0] for rule in rules]
    belonging: list[list[_Comment]] = [[] for _ in range(len(rules) + 1)]
    for each in comments:
        number = bisect_right(starts, each.line)
        belonging[number - 1 if each.inside else number].append(each)
    parts = [
        _remarks(several, rule.place[0]) + write_rule(rule)
        for rule, several in zip(rules, belonging, strict=False)
    ]
    return "\n".join([*parts, *filter(None, [_remarks(belonging[-1], None)])])


def _remarks(comments: Sequence[_Comment], rule: int | None) -> str:
    """Comments line by line; where empty lines stood between them, or before the rule in that line, one still does."""
    text, last = "", None
    for each in comments:
        text += "\n" if last is not None and each.line > last + 1 else ""
        text += f"{each.text.rstrip()}\n"
        last = each.line
    apart = rule is not None and last is not None and rule > last + 1
    return text + "\n" if apart else text


def _comments(text: str, rules: Sequence[Rule]) -> Iterator[_Comment]:
    """A comment stands within a rule if something of that rule comes after it, or in its line before it."""
    starts = [rule.place for rule in rules]
    pieces = list(_PIECE.finditer(text))
    follows: tuple[int, int] | None = None
    within: dict[int, bool] = {}
    lines = [0, *(found.end() for found in re.finditer("\n", text))]
    for piece in reversed(pieces):
        line = bisect_right(lines, piece.start())
        at = line, piece.start() - lines[line - 1] + 1
        if piece["comment"] is None:
            follows = at
        else:
            owner = bisect_right(starts, at)
            shares = bool(text[lines[line - 1] : piece.start()].strip())
            goes_on = follows is not None and bisect_right(starts, follows) == owner
            within[piece.start()] = owner > 0 and (shares or goes_on)
    for piece in pieces:
        if piece["comment"] is not None:
            line = bisect_right(lines, piece.start())
            yield _Comment(piece[0], line, within[piece.start()])
