"""JSON and YAML text as plain values, and where in the text each of them stands.

YAML is read by the types of YAML 1.2: `no` and `12:30` are strings. Names may not be given twice, and there
are no aliases.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import isfinite
from typing import Any, NoReturn, TypeVar

import msgspec
import yaml

from authz.errors import InvalidSyntax
from pdp.documents.validation_errors import Misfit, Place, misfits

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Document:
    """The values of a text: one for JSON, one for each part between `---` for YAML."""

    values: tuple[object, ...]
    text: str
    source: str = ""

    @classmethod
    def parse(cls, text: str, source: str = "") -> Document:
        """Read JSON if the text starts like it, else YAML; in a file for YAML, either. Raises InvalidSyntax."""
        read = _read_json if text.lstrip()[:1] in ("{", "[") else _read_yaml
        document = cls(read(text, source), text, source)
        if _PERHAPS_UNSENDABLE.search(text):
            document._refuse_unsendable()
        return document

    def error(self, place: Place, problem: str) -> InvalidSyntax:
        """The problem, said of the value at this place: its first step is the number of the document."""
        return self.errors([(place, problem)])

    def errors(self, problems: Sequence[Misfit]) -> InvalidSyntax:
        """The first of several problems in the text, with the others."""
        places = self.positions([place for place, _ in problems])
        found = sorted(zip(places, (text for _, text in problems), strict=True))
        first, *others = (InvalidSyntax(text, *place, self.source) for place, text in found)
        first.others = tuple(others)
        return first

    def read(self, type_: type[T]) -> T:
        """The only value of the text, as a value of this type. Raises InvalidSyntax."""
        if len(self.values) > 1:
            raise self.error((1,), "one document is expected here: remove this one")
        value = self.values[0] if self.values else None
        if found := [((0, *place) if self.values else (), text) for place, text in misfits(value, type_)]:
            raise self.errors(found)
        return msgspec.convert(value, type_)

    def _refuse_unsendable(self) -> None:
        for number, value in enumerate(self.values):
            for place, problem in _unsendable(value, (number,)):
                raise self.error(place, problem)

    def positions(self, places: Iterable[Place]) -> list[tuple[int, int]]:
        """The line and column of each place. They are only sought when something is to be said about it."""
        nodes: list[Any] = []
        for loader in (
            _LOADER,
            yaml.SafeLoader,
        ):  # some JSON is YAML for one and not for the other, or for neither
            with suppress(yaml.YAMLError, RecursionError):
                nodes = list(yaml.compose_all(self.text, loader))
                break
        return [_position(nodes, each) for each in places]


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
    for depth, step in enumerate(place[1:], 2):
        if isinstance(node, yaml.MappingNode):
            pairs = {key.value: (key, value) for key, value in node.value}
            key, node = pairs.get(str(step), (node, node))
            if depth == len(place):
                node = key
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            node = node.value[step]
    return node.start_mark.line + 1, node.start_mark.column + 1


def _read_json(text: str, source: str) -> tuple[object, ...]:
    try:
        return (json.loads(text, object_pairs_hook=_distinct, parse_constant=_no_constant),)
    except json.JSONDecodeError as error:
        if source.endswith((".yaml", ".yml")):  # lists and objects of YAML may be written in brackets too
            return _read_yaml(text, source)
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
    with suppress(yaml.YAMLError):
        return tuple(_values(yaml.parse(text, _LOADER)))
    try:
        return tuple(_values(yaml.parse(text, yaml.SafeLoader)))  # slower, and better at saying what is wrong
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise InvalidSyntax(error.problem or "is no YAML", line, column, source) from None
    except yaml.YAMLError as error:
        raise InvalidSyntax(f"is no YAML: {str(error).splitlines()[0]}", 1, 1, source) from None


def _values(events: Iterable[Any]) -> Iterator[object]:
    """The value of each document. Strings, numbers, booleans, null, lists and objects with distinct names are read.

    From events rather than by the library's loaders, which take longer, and more stack the deeper the text is nested.
    """
    within: list[_Open] = []
    for event in events:
        if isinstance(event, yaml.CollectionStartEvent):
            if len(within) == MOST_NESTED:
                raise _wrong(event, "the text is nested too deep")
            within.append(_Open(event))
            continue
        if isinstance(event, yaml.AliasEvent):
            raise _wrong(event, "aliases are not read: write it out")
        if isinstance(event, yaml.ScalarEvent):
            value, name = _scalar(event), event
        elif isinstance(event, yaml.CollectionEndEvent):
            closed = within.pop()
            value, name = closed.value, closed.event
        else:
            continue
        if within:
            within[-1].add(value, name)
        else:
            yield value


class _Open:
    """A list or an object that is being read."""

    __slots__ = ("_name", "event", "value")

    def __init__(self, event: Any) -> None:
        self.event = event
        mapping = isinstance(event, yaml.MappingStartEvent)
        _check_tag(event, "map" if mapping else "seq")
        self.value: dict[str, object] | list[object] = {} if mapping else []
        self._name: str | None = None

    def add(self, value: object, event: Any) -> None:
        """Take in the next element; in an object names and values take turns."""
        if isinstance(self.value, list):
            self.value.append(value)
        elif self._name is not None:
            self.value[self._name] = value
            self._name = None
        elif not isinstance(value, str):
            raise _wrong(event, "a name must be a string: put it in quotes")
        elif value in self.value:
            raise _wrong(event, f"`{value}` is given twice in one object: which one is meant?")
        else:
            self._name = value


def _scalar(event: Any) -> object:
    tag: str = event.tag
    if tag in (None, "!"):
        tag = _RESOLVER.resolve(yaml.ScalarNode, event.value, event.implicit)  # type: ignore[no-untyped-call]
    construct = _SCALARS.get(tag.removeprefix(_TAG))
    if construct is None:
        raise _wrong(event, f"values of the kind `{tag.removeprefix(_TAG)}` are not read")
    try:
        return construct(event.value)
    except (ValueError, KeyError):  # written with a tag that it does not fit, or thousands of digits long
        problem = (
            f"this is no {tag.removeprefix(_TAG)}"
            if event.tag
            else "the number is too large: whole numbers have 64 bits"
        )
        raise _wrong(event, problem) from None


def _check_tag(event: Any, kind: str) -> None:
    if event.tag not in (None, "!", _TAG + kind):
        raise _wrong(event, f"values of the kind `{event.tag.removeprefix(_TAG)}` are not read")


def _wrong(event: Any, problem: str) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)


MOST_NESTED = 200
"""Maximum nesting of lists and objects."""

_TAG = "tag:yaml.org,2002:"
_SCALARS: dict[str, Callable[[str], object]] = {
    "str": str,
    "null": lambda text: None,
    "bool": lambda text: {"true": True, "false": False}[text.lower()],
    "int": int,
    "float": float,
}


class _Resolver(yaml.resolver.BaseResolver):
    """The types of YAML 1.2."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}


for _kind, _pattern, _first in (
    ("null", r"|~|null|Null|NULL", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?(0|[1-9][0-9]*)", list("-+0123456789")),
    ("float", r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?", list("-+.0123456789")),
):
    _Resolver.add_implicit_resolver(_TAG + _kind, re.compile(f"^(?:{_pattern})$"), _first)

_RESOLVER = _Resolver()
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Written in C where there is one; of it only the events and nodes are used."""
