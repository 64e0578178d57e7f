"""From predicate to Python: one function per predicate, true or false for whatever it is given.

Source is generated for a predicate's shape alone; its constants, names and patterns enter as closure
variables. So no text of a policy ever becomes code, and ten thousand policies of a few dozen shapes are
compiled a few dozen times.
"""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Generic, TypeVar, assert_never, cast, overload

from authz.errors import InvalidPredicate
from authz.predicate import values
from authz.predicate.regex import compile_search
from authz.predicate.terms import (
    And,
    AnyComparison,
    Cidr,
    Comparison,
    Contains,
    Equal,
    EqualDocument,
    Exists,
    Glob,
    In,
    Kind,
    Names,
    Not,
    Or,
    Order,
    Overlaps,
    Path,
    Predicate,
    Prefix,
    Regex,
    Relate,
    Scalar,
    Subset,
    Suffix,
)
from authz.request import Request

T = TypeVar("T")
MAX_DEPTH = 40


@dataclass(frozen=True, slots=True)
class Layout(Generic[T]):
    """How the roots of paths are found in what a predicate is asked about, `it`, as Python expressions."""

    attributes: Mapping[str, str]
    """Root to its dictionary of attributes."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Root to its own name, for roots that have one."""


REQUEST: Layout[Request] = Layout(
    {
        "subject": "it.subject.attributes",
        "object": "it.object.attributes",
        "action": "it.action.attributes",
        "context": "it.context",
    },
    {"subject": "it.subject.id", "object": "it.object.id", "action": "it.action.id"},
)
"""A request, as it is asked."""

EVENT: Layout[Mapping[str, object]] = Layout({"event": "it"})
"""An event's attributes by name."""


@overload
def compile_predicate(predicate: Predicate) -> Callable[[Request], bool]: ...
@overload
def compile_predicate(predicate: Predicate, layout: Layout[T]) -> Callable[[T], bool]: ...
def compile_predicate(predicate: Predicate, layout: Layout[Any] = REQUEST) -> Callable[..., bool]:
    """The function that says whether the predicate holds. Raises InvalidPredicate if it cannot be meant."""
    emitter = Emitter(layout)
    return cast("Callable[..., bool]", emitter.function("it", [f"return {emitter.term(predicate)}"]))


def compile_sieve(predicate: Predicate, layout: Layout[T]) -> Callable[[Iterable[T | None]], list[T | None]]:
    """The function that has None in place of those of which the predicate does not hold: one loop, and no calls."""
    emitter = Emitter(layout)
    sifted = f"it if it is not None and {emitter.term(predicate)} else None for it in them"
    return cast(
        "Callable[[Iterable[T | None]], list[T | None]]", emitter.function("them", [f"return [{sifted}]"])
    )


def compile_reader(path: Path, layout: Layout[T]) -> Callable[[T], object]:
    """The function that reads the value at the path, None if there is none."""
    emitter = Emitter(layout)
    return emitter.function("it", [f"return {emitter.read(path)}"])


@lru_cache(maxsize=4096)
def _factory(source: str) -> Callable[..., Callable[..., object]]:
    namespace: dict[str, object] = dict(_GLOBALS)
    exec(source, namespace)  # noqa: S102 - the source holds no text of any policy
    return cast("Callable[..., Callable[..., object]]", namespace["make"])


class Emitter:
    """Source text in the making, and the constants it will be closed over. `it` is what is asked about."""

    def __init__(self, layout: Layout[Any]) -> None:
        self._layout = layout
        self._constants: list[object] = []

    def function(self, parameters: str, lines: list[str]) -> Callable[..., object]:
        """The function with these lines as its body."""
        names = ", ".join(f"c{n}" for n in range(len(self._constants)))
        body = "\n  ".join(lines)
        return _factory(f"def make({names}):\n def f({parameters}):\n  {body}\n return f")(*self._constants)

    def constant(self, value: object) -> str:
        """A name for a value, which never becomes text."""
        self._constants.append(value)
        return f"c{len(self._constants) - 1}"

    def term(self, term: Predicate, depth: int = MAX_DEPTH) -> str:
        """An expression that is true exactly where the predicate holds."""
        if depth == 0:
            raise InvalidPredicate("a condition", f"is nested deeper than {MAX_DEPTH} levels: flatten it")
        if isinstance(term, And):
            return "(" + " and ".join([self.term(each, depth - 1) for each in term.terms] or ["True"]) + ")"
        if isinstance(term, Or):
            return "(" + " or ".join([self.term(each, depth - 1) for each in term.terms] or ["False"]) + ")"
        if isinstance(term, Not):
            return f"(not {self.term(term.term, depth - 1)})"
        return f"({self._comparison(term)})"

    def read(self, path: Path) -> str:
        """An expression for the value at the path, None if there is none."""
        if not path.keys:
            if path.root not in self._layout.names:
                raise InvalidPredicate(
                    path.root, f"has no id: write one of its attributes, `{path.root}.name`"
                )
            return self._layout.names[path.root]
        if path.root not in self._layout.attributes:
            known = ", ".join(f"`{root}`" for root in self._layout.attributes)
            raise InvalidPredicate(path.root, f"is unknown here: a path starts with one of {known}")
        attributes = self._layout.attributes[path.root]
        if len(path.keys) == 1 and isinstance(path.keys[0], str):
            return f"{attributes}.get({self.constant(path.keys[0])})"
        return f"dig({attributes}, {self.constant(path.keys)})"

    def _comparison(self, test: AnyComparison) -> str:
        value = self.read(test.path)
        match test:
            case Exists():
                return f"{value} is not None"
            case Kind():
                return _KINDS[test.kind].format(value)
            case Equal():
                return self._equal(value, test)
            case EqualDocument():
                return f"same({value}, {self.constant(_document(test))})"
            case Order():
                return self._order(value, test)
            case In():
                return self._among(value, test)
            case Prefix() | Suffix() | Contains():
                return self._text(value, test)
            case Glob():
                match_ = re.compile(
                    fnmatch.translate(test.pattern)
                ).match  # goes back over no `*` it has passed
                return f"isinstance(v := {value}, str) and {self.constant(match_)}(v) is not None"
            case Regex():
                search = compile_search(test.pattern)
                return f"isinstance(v := {value}, str) and {self.constant(search)}(v) is not None"
            case Cidr():
                return f"{self.constant(_network(test))}({value})"
            case Subset():
                return f"subset({value}, {self.constant(_scalars(test, test.values))})"
            case Overlaps():
                texts = all(isinstance(each, str) for each in test.values)
                call = "overlaps_texts" if texts else "overlaps"
                return f"{call}({value}, {self.constant(_scalars(test, test.values))})"
            case Names():
                return f"names({value}, {self.constant(frozenset(test.values))})"
            case Relate():
                return f"{self.constant(values.RELATIONS[test.op])}({value}, {self.read(test.other)})"
        assert_never(test)

    def _equal(self, value: str, test: Equal) -> str:
        constant = test.value
        _scalars(test, (constant,))
        if isinstance(constant, bool):
            return f"{value} is {constant}"
        if isinstance(constant, str) and test.fold:
            return f"isinstance(v := {value}, str) and v.lower() == {self.constant(constant.lower())}"
        if constant in (0, 1):  # the two numbers that Python takes booleans for
            return f"(v := {value}) == {self.constant(constant)} and v.__class__ is not bool"
        return f"{value} == {self.constant(constant)}"

    def _order(self, value: str, test: Order) -> str:
        _scalars(test, (test.value,))
        compared = f"v {test.op} {self.constant(test.value)}"
        if isinstance(test.value, str):
            return f"isinstance(v := {value}, str) and {compared}"
        return f"isinstance(v := {value}, NUMBERS) and {compared} and v.__class__ is not bool"

    def _among(self, value: str, test: In) -> str:
        constants = self.constant(_scalars(test, test.values))
        if all(isinstance(each, str) for each in test.values):
            return f"isinstance(v := {value}, str) and v in {constants}"
        return f"key({value}) in {constants}"

    def _text(self, value: str, test: Prefix | Suffix | Contains) -> str:
        lower = ".lower()" if test.fold else ""
        constant = self.constant(test.value.lower() if test.fold else test.value)
        if isinstance(test, Contains):
            return f"isinstance(v := {value}, str) and {constant} in v{lower}"
        method = "startswith" if isinstance(test, Prefix) else "endswith"
        return f"isinstance(v := {value}, str) and v{lower}.{method}({constant})"


_KINDS = {
    "string": "isinstance({}, str)",
    "number": "is_number({})",
    "boolean": "isinstance({}, bool)",
    "list": "isinstance({}, LISTS)",
    "object": "isinstance({}, dict)",
}
_GLOBALS: dict[str, object] = {
    name: getattr(values, name)
    for name in (
        "LISTS",
        "NUMBERS",
        "dig",
        "is_number",
        "key",
        "names",
        "overlaps",
        "overlaps_texts",
        "same",
        "subset",
    )
}


def _scalars(test: Comparison, constants: tuple[Scalar, ...]) -> frozenset[object]:
    for each in constants:
        if each != each:
            raise InvalidPredicate(str(test), "compares with NaN, which is equal to nothing")
    return values.keys(constants)


def _network(test: Cidr) -> Callable[[object], bool]:
    try:
        return values.network_test(test.network)
    except ValueError as error:
        raise InvalidPredicate(test.network, f"is no network: {error}") from None


def _document(test: EqualDocument) -> object:
    try:
        return json.loads(test.json)
    except ValueError as error:
        raise InvalidPredicate(test.json, f"is no JSON: {error}") from None
