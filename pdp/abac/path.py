"""The attribute paths of py-abac: of all that ObjectPath can compute, only the way to a value."""

from __future__ import annotations

import re
import typing

from authz.errors import InvalidPredicate
from authz.predicate import Path

Element: typing.TypeAlias = typing.Literal["subject", "resource", "action", "context"]
ROOTS: dict[Element, str] = {
    "subject": "subject",
    "resource": "object",
    "action": "action",
    "context": "context",
}
"""What py-abac calls the elements of a request, and what the fabric does."""
NAME = "id"
"""The path of an element's own id, which is not among its attributes."""

_STEP = re.compile(
    r"""
    \.\s*(?P<name>[^\W\d]\w*)
    | \.\s*(?:"(?P<double>[^"\\]+)" | '(?P<single>[^'\\]+)')
    | \[\s*(?P<index>-?\d+)\s*\]
    | \[\s*(?:"(?P<double_key>[^"\\]+)" | '(?P<single_key>[^'\\]+)')\s*\]
    """,
    re.VERBOSE,
)
_HYPHENATED = re.compile(r"[^\W\d][\w-]*-[\w-]+")


def read_path(element: Element, text: str) -> Path:
    """Where the text leads in an element of a request. Raises InvalidPredicate.

    `id` is the id of the subject, resource or action. py-abac finds no id by `$.id`, but an attribute that hardly
    anybody has: what would be compared with that is refused.
    """
    stripped, named = text.strip(), element != "context"
    if stripped == NAME:
        if not named:
            raise InvalidPredicate(text, "is no path: the context has no id of its own; write `$.id`")
        return Path(ROOTS[element])
    if named and stripped.replace(" ", "") == "$.id":
        problem = (
            f'is not the id of the {element}: write `id` for that, or `$."id"` for an attribute of that name'
        )
        raise InvalidPredicate(text, problem)
    return Path(ROOTS[element], parse_path(text))


def parse_path(text: str) -> tuple[str | int, ...]:
    """The names and positions to follow. Raises InvalidPredicate for what ObjectPath would compute beyond."""
    stripped = text.strip()
    if not stripped.startswith("$."):
        raise InvalidPredicate(text, "is no path: it starts at the root, as in `$.name`")
    steps: list[str | int] = []
    position = 1
    while position < len(stripped):
        step = _STEP.match(stripped, position)
        if step is None:
            raise InvalidPredicate(text, _hint(stripped, position))
        found = str(next(filter(None, step.groups())))
        steps.append(int(found) if step["index"] else found)
        position = step.end()
    return tuple(steps)


def _hint(path: str, position: int) -> str:
    rest = path[position:]
    hyphenated = _HYPHENATED.search(path)
    if rest.startswith("-") and hyphenated:
        return f'would subtract: put a name with a hyphen in quotes, as in `$."{hyphenated[0]}"`'
    if rest.startswith(".."):
        return "would search at every depth: name each step, as in `$.a.b`"
    return f'is no plain path at `{rest}`: steps are `.name`, `."any name"`, `[0]` and `["any name"]`'
