"""From the policy text of py-abac to policies: checked, with every error at its line and column."""

from __future__ import annotations

import re
import typing
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Annotated, TypeVar

import msgspec

from authz.decision import Effect
from authz.errors import InvalidPredicate
from authz.predicate import (
    TRUE,
    And,
    Contains,
    Equal,
    Glob,
    In,
    Or,
    Path,
    Predicate,
    Prefix,
    Suffix,
    conjuncts,
    depth,
)
from authz.predicate.compiler import MAX_DEPTH
from pdp.abac.conditions import Condition
from pdp.abac.path import ROOTS, Element, read_path
from pdp.abac.policy import Policy
from pdp.documents import Document, Misfit, Place, misfits

T = TypeVar("T")
_Meaning: typing.TypeAlias = Callable[[Condition, Path], Predicate]
"""What a condition states of the attribute at a path."""
_Block: typing.TypeAlias = dict[str, object]
_Pattern: typing.TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]
_Patterns: typing.TypeAlias = _Pattern | Annotated[list[_Pattern], msgspec.Meta(min_length=1)]


class Rules(msgspec.Struct, forbid_unknown_fields=True):
    """Conditions by path: an object means all of them, a list of objects any one of these."""

    subject: _Block | list[_Block] = {}
    resource: _Block | list[_Block] = {}
    action: _Block | list[_Block] = {}
    context: _Block | list[_Block] = {}


class Targets(msgspec.Struct, forbid_unknown_fields=True):
    subject_id: _Patterns = "*"
    resource_id: _Patterns = "*"
    action_id: _Patterns = "*"


class PolicyText(msgspec.Struct, forbid_unknown_fields=True):
    uid: Annotated[str, msgspec.Meta(min_length=1)]
    rules: Rules
    targets: Targets
    effect: Effect
    description: str = ""
    priority: Annotated[int, msgspec.Meta(ge=0)] = 0
    obligations: list[dict[str, object]] = []


class _Rule(msgspec.Struct):
    """One condition. Converting to a union is prepared anew each time; converting to a class is once."""

    condition: Condition


def read_policies(text: str, source: str = "") -> tuple[Policy, ...]:
    """The policies in a JSON or YAML text: one object, or a list of them. Raises InvalidSyntax."""
    document = Document.parse(text, source)
    try:
        return tuple(_policies(document))
    except _Problems as error:
        raise document.errors(error.problems) from None


def read_policy(value: object, as_py_abac: bool = False) -> Policy:
    """One policy from decoded JSON. Raises InvalidPredicate, naming the field.

    With `as_py_abac` negative conditions mean what they do there.
    """
    try:
        return _policy(value, (), as_py_abac)
    except _Problems as error:
        place, text = error.problems[0]
        raise InvalidPredicate(".".join(map(str, place)) or "policy", text) from None


def _policies(document: Document) -> list[Policy]:
    seen = set[str]()

    def read(place: Place, item: object) -> Policy:
        policy = _policy(item, place, False)
        if policy.id in seen:
            raise _problem((*place, "uid"), f"there are two policies `{policy.id}`: give each its own uid")
        seen.add(policy.id)
        return policy

    return _all(
        partial(read, (number,) if position is None else (number, position), item)
        for number, value in enumerate(document.values)
        for position, item in (enumerate(value) if isinstance(value, list) else [(None, value)])
    )


class _Problems(Exception):
    """What cannot be: where, and what would be right."""

    def __init__(self, problems: Sequence[Misfit]) -> None:
        super().__init__(problems[0][1])
        self.problems = problems


def _problem(place: Place, text: str) -> _Problems:
    return _Problems([(place, text)])


def _all(works: Iterable[Callable[[], T]]) -> list[T]:
    """What each gives; or the problems of all of them, not of the first only."""
    found: list[T] = []
    problems: list[Misfit] = []
    for work in works:
        try:
            found.append(work())
        except _Problems as error:
            problems += error.problems
    if problems:
        raise _Problems(problems)
    return found


def _policy(value: object, place: Place, as_py_abac: bool) -> Policy:
    text = _convert(value, PolicyText, place)
    terms = [_target(name, getattr(text.targets, f"{name}_id")) for name in ("subject", "resource", "action")]
    # Fail closed: of what is missing, negative conditions are false in an allow, and true in a deny.
    meaning = _in_py_abac if as_py_abac else _in_deny if text.effect is Effect.DENY else _in_allow
    terms += _all(
        partial(_rule, name, getattr(text.rules, name), (*place, "rules", name), meaning) for name in ROOTS
    )
    condition = And(tuple(conjuncts(And(tuple(terms)))))
    if depth(condition) > MAX_DEPTH:
        raise _problem(
            (*place, "rules"), f"the conditions are nested deeper than {MAX_DEPTH} levels: flatten them"
        )
    obligations = tuple(text.obligations)
    return Policy(text.uid, text.effect, condition, text.priority, text.description, obligations)


def _in_allow(condition: Condition, path: Path) -> Predicate:
    return condition.on(path)


def _in_deny(condition: Condition, path: Path) -> Predicate:
    return condition.in_deny(path)


def _in_py_abac(condition: Condition, path: Path) -> Predicate:
    return condition.in_py_abac(path)


def _target(element: Element, patterns: str | list[str]) -> Predicate:
    """Any one of the wildcard patterns fits the name; those without wildcards are looked up together."""
    path = Path(ROOTS[element])
    several = [patterns] if isinstance(patterns, str) else patterns
    plain = tuple(dict.fromkeys(each for each in several if not _WILD.search(each)))
    terms: list[Predicate] = [_shape(path, each) for each in several if _WILD.search(each)]
    if TRUE in terms:
        return TRUE
    if plain:
        terms.append(In(path, plain) if len(plain) > 1 else Equal(path, plain[0]))
    return terms[0] if len(terms) == 1 else Or(tuple(terms))


_WILD = re.compile(r"[*?\[]")
_SIMPLE = re.compile(r"(\*?)([^*?\[]+)(\*?)")


def _shape(path: Path, pattern: str) -> Predicate:
    """The simplest test that is true where fnmatch is."""
    if not pattern.strip("*"):
        return TRUE
    simple = _SIMPLE.fullmatch(pattern)
    if simple is None:
        return Glob(path, pattern)
    if simple[1] and simple[3]:
        return Contains(path, simple[2])
    return Suffix(path, simple[2]) if simple[1] else Prefix(path, simple[2])


def _rule(element: Element, block: _Block | list[_Block], place: Place, meaning: _Meaning) -> Predicate:
    if isinstance(block, list):
        several = (
            partial(_block, element, each, (*place, number), meaning) for number, each in enumerate(block)
        )
        return Or(tuple(_all(several)))
    return _block(element, block, place, meaning)


def _block(element: Element, block: _Block, place: Place, meaning: _Meaning) -> Predicate:
    several = (
        partial(_condition, element, path, value, (*place, path), meaning) for path, value in block.items()
    )
    return And(tuple(_all(several)))


def _condition(element: Element, path: str, value: object, place: Place, meaning: _Meaning) -> Predicate:
    try:
        where = read_path(element, path)
        condition = _read_condition(value, place)
        return meaning(condition, where)
    except InvalidPredicate as error:
        raise _problem(place, str(error)) from None
    except RecursionError:
        raise _problem(place, "the condition is nested too deep: flatten it") from None


def _read_condition(value: object, place: Place) -> Condition:
    try:
        return msgspec.convert({"condition": value}, _Rule).condition
    except msgspec.ValidationError:
        raise _misfit(value, Condition, place) from None


def _convert(value: object, type_: object, place: Place) -> typing.Any:
    try:
        return msgspec.convert(value, type_)
    except msgspec.ValidationError:
        raise _misfit(value, type_, place) from None


def _misfit(value: object, type_: object, place: Place) -> _Problems:
    return _Problems(
        [((*place, *way), text + _advice(value, way, text)) for way, text in misfits(value, type_)]
    )


def _advice(value: object, way: Place, text: str) -> str:
    """By which condition a value is compared that is not of the type this one compares."""
    for step in way[:-1]:
        value = value[step]  # type: ignore[index]
    if not isinstance(value, dict) or value.get("condition") not in ("Equals", "NotEquals", "Eq", "Neq"):
        return ""
    right = next((words for type_, words in _COMPARED.items() if text.endswith(f"got `{type_}`")), "")
    return f": {right}" if right else ""


_COMPARED = {
    "bool": "booleans are compared by `{condition: IsIn, values: [true]}`",
    "int": "numbers are compared by `Eq` and `Neq`",
    "float": "numbers are compared by `Eq` and `Neq`",
    "str": "texts are compared by `Equals` and `NotEquals`",
}
"""How values of a JSON type are compared with one value, by the type's name."""
