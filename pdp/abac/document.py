"""JSON and YAML text as plain values, and where in the text each of them stands.

YAML is read by the types of YAML 1.2: `no` and `12:30` are strings. Names may not be given twice, and there
are no aliases.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from math import isfinite
from typing import Any, NoReturn, TypeAlias, TypeVar

import msgspec
import yaml

from authz.errors import InvalidSyntax

T = TypeVar("T")
Place: TypeAlias = tuple[str | int, ...]
"""The way to a value: names in objects, positions in lists."""


@dataclass(frozen=True, slots=True)
class Document:
    """The values of a text: one for JSON, one for each part between `---` for YAML."""

    values: tuple[object, ...]
    text: str
    source: str = ""

    @classmethod
    def parse(cls, text: str, source: str = "") -> Document:
        """Read JSON if the text starts like it, else YAML. Raises InvalidSyntax."""
        read = _read_json if text.lstrip()[:1] in ("{", "[") else _read_yaml
        document = cls(read(text, source), text, source)
        if _PERHAPS_UNSENDABLE.search(text):
            document._refuse_unsendable()
        return document

    def error(self, place: Place, problem: str) -> InvalidSyntax:
        """The problem, said of the value at this place: its first step is the number of the document."""
        return InvalidSyntax(problem, *self.positions([place])[0], self.source)

    def read(self, type_: type[T]) -> T:
        """The only value of the text, as a value of this type. Raises InvalidSyntax."""
        if len(self.values) > 1:
            raise self.error((1,), "one document is expected here: remove this one")
        try:
            return msgspec.convert(self.values[0] if self.values else None, type_)
        except msgspec.ValidationError as error:
            message, _, way = str(error).partition(" - at `$")
            unknown = re.findall(r"unknown field `(.*)`", message)
            place = (0, *steps(way), *unknown) if self.values else ()
            raise self.error(place, message[0].lower() + message[1:]) from None

    def _refuse_unsendable(self) -> None:
        for number, value in enumerate(self.values):
            for place, problem in _unsendable(value, (number,)):
                raise self.error(place, problem)

    def positions(self, places: Iterable[Place]) -> list[tuple[int, int]]:
        """The line and column of each place. They are only sought when something is to be said about it."""
        try:
            nodes: list[Any] = list(yaml.compose_all(self.text, _Loader))
        except yaml.YAMLError:  # JSON that is not YAML, such as one indented by tabs
            nodes = []
        return [_position(nodes, each) for each in places]


def steps(way: str) -> Iterator[str | int]:
    """The way that msgspec writes, `.values[2].value`."""
    for name, number in re.findall(r"\.(\w+)|\[(\d+)\]", way):
        yield name or int(number)


_PERHAPS_UNSENDABLE = re.compile(r"\\u[dD][89a-fA-F]|[0-9]{19}|[eE][+]?[0-9]{3}")


def _unsendable(value: object, place: Place) -> Iterator[tuple[Place, str]]:
    """Values that no message can carry, so that no decision could tell of them."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _unsendable(name, (*place, name))
            yield from _unsendable(each, (*place, name))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from _unsendable(each, (*place, number))
    elif isinstance(value, str) and not value.isascii() and _SURROGATE.search(value):
        yield place, "half a character: `\\ud800` to `\\udfff` count in pairs only"
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        yield place, "the number is too large: whole numbers have 64 bits"
    elif isinstance(value, float) and not isfinite(value):
        yield place, "the number is too large"


_SURROGATE = re.compile("[\ud800-\udfff]")


def _position(nodes: list[Any], place: Place) -> tuple[int, int]:
    if not nodes or not place:
        return 1, 1
    node = nodes[int(place[0])]
    for step in place[1:]:
        if isinstance(node, yaml.MappingNode):
            pairs = {key.value: (key, value) for key, value in node.value}
            key, node = pairs.get(str(step), (node, node))
            if step == place[-1]:
                node = key
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            node = node.value[step]
    return node.start_mark.line + 1, node.start_mark.column + 1


def _read_json(text: str, source: str) -> tuple[object, ...]:
    try:
        return (json.loads(text, object_pairs_hook=_distinct, parse_constant=_no_constant),)
    except json.JSONDecodeError as error:
        problem = error.msg[0].lower() + error.msg[1:]
        raise InvalidSyntax(problem, error.lineno, error.colno, source) from None
    except _Refused as error:
        _read_yaml(text, source)  # refuses the same, and knows where
        raise InvalidSyntax(str(error), 1, 1, source) from None
    except RecursionError:
        raise InvalidSyntax("the text is nested too deep", 1, 1, source) from None
    except ValueError:  # Python reads no number of thousands of digits
        raise InvalidSyntax("a number is too large: whole numbers have 64 bits", 1, 1, source) from None


def _distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _Refused(f"`{twice}` is given twice in one object: which one is meant?")
    return found


def _no_constant(name: str) -> NoReturn:
    raise _Refused(f"`{name}` is no number that JSON has")


class _Refused(ValueError):
    """What the JSON reader accepts and we do not."""


def _read_yaml(text: str, source: str) -> tuple[object, ...]:
    try:
        return tuple(yaml.load_all(text, _Loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise InvalidSyntax(error.problem or "is no YAML", line, column, source) from None
    except (yaml.YAMLError, RecursionError) as error:
        raise InvalidSyntax(f"is no YAML: {str(error).splitlines()[0]}", 1, 1, source) from None
    except ValueError:  # Python reads no number of thousands of digits
        raise InvalidSyntax("a number is too large: whole numbers have 64 bits", 1, 1, source) from None


class _Loader(yaml.SafeLoader):
    """Strings, numbers, booleans, null, lists and objects with distinct names; nothing else."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    yaml_constructors = {
        tag: construct
        for tag, construct in yaml.SafeLoader.yaml_constructors.items()
        if tag is None or tag.rpartition(":")[2] in ("null", "bool", "int", "float", "str", "seq", "map")
    }

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem="aliases are not read: write it out", problem_mark=mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key, _ in node.value:
            if key.tag != "tag:yaml.org,2002:str":
                problem = "a name must be a string: put it in quotes"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            if key.value in seen:
                problem = f"`{key.value}` is given twice in one object: which one is meant?"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


for _tag, _pattern, _first in (
    ("null", r"|~|null|Null|NULL", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?(0|[1-9][0-9]*)", list("-+0123456789")),
    ("float", r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?", list("-+.0123456789")),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), _first)
