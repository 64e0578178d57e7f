"""From the policy text of py-abac to policies: checked, with every error at its line and column."""

from __future__ import annotations

import difflib
import re
import typing
from collections.abc import Iterator
from typing import Annotated, TypeVar

import msgspec

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
from pdp.abac.conditions import NAMES, Condition
from pdp.abac.document import Document, Place, steps
from pdp.abac.path import ROOTS, Element, read_path
from pdp.abac.policy import Policy
from pdp.source import Effect

T = TypeVar("T")
_Block: typing.TypeAlias = dict[str, object]
_Pattern: typing.TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]
_Patterns: typing.TypeAlias = _Pattern | Annotated[list[_Pattern], msgspec.Meta(min_length=1)]


class _Rules(msgspec.Struct, forbid_unknown_fields=True):
    """Conditions by path: an object means all of them, a list of objects any one of these."""

    subject: _Block | list[_Block] = {}
    resource: _Block | list[_Block] = {}
    action: _Block | list[_Block] = {}
    context: _Block | list[_Block] = {}


class _Targets(msgspec.Struct, forbid_unknown_fields=True):
    subject_id: _Patterns = "*"
    resource_id: _Patterns = "*"
    action_id: _Patterns = "*"


class _PolicyText(msgspec.Struct, forbid_unknown_fields=True):
    uid: Annotated[str, msgspec.Meta(min_length=1)]
    rules: _Rules
    targets: _Targets
    effect: Effect
    description: str = ""
    priority: Annotated[int, msgspec.Meta(ge=0)] = 0
    obligations: list[dict[str, object]] = []


def read_policies(text: str, source: str = "", as_py_abac: bool = False) -> tuple[Policy, ...]:
    """The policies in a JSON or YAML text: one object, or a list of them. Raises InvalidSyntax.

    With `as_py_abac` negative conditions mean what they do there.
    """
    document = Document.parse(text, source)
    try:
        return tuple(_policies(document, as_py_abac))
    except _Problem as problem:
        raise document.error(problem.place, problem.text) from None


def read_policy(value: object, as_py_abac: bool = False) -> Policy:
    """One policy from decoded JSON. Raises InvalidPredicate, naming the field."""
    try:
        return _policy(value, (), as_py_abac)
    except _Problem as problem:
        field = ".".join(map(str, problem.place)) or "policy"
        raise InvalidPredicate(field, problem.text) from None


def _policies(document: Document, as_py_abac: bool) -> Iterator[Policy]:
    seen = set[str]()
    for number, value in enumerate(document.values):
        items = enumerate(value) if isinstance(value, list) else [(None, value)]
        for position, item in items:
            place = (number,) if position is None else (number, position)
            policy = _policy(item, place, as_py_abac)
            if policy.id in seen:
                raise _Problem(
                    (*place, "uid"), f"there are two policies `{policy.id}`: give each its own uid"
                )
            seen.add(policy.id)
            yield policy


class _Problem(Exception):
    """Something that cannot be: where, and what would be right."""

    def __init__(self, place: Place, text: str) -> None:
        super().__init__(text)
        self.place = place
        self.text = text


def _policy(value: object, place: Place, as_py_abac: bool) -> Policy:
    text = _convert(value, _PolicyText, place)
    terms = [_target(name, getattr(text.targets, f"{name}_id")) for name in ("subject", "resource", "action")]
    # Fail closed: of what is missing, negative conditions are false in an allow, and true in a deny, as in py-abac.
    loose = as_py_abac or text.effect is Effect.DENY
    terms += [_rule(name, getattr(text.rules, name), (*place, "rules", name), loose) for name in ROOTS]
    condition = And(tuple(conjuncts(And(tuple(terms)))))
    if depth(condition) > MAX_DEPTH:
        raise _Problem(
            (*place, "rules"), f"the conditions are nested deeper than {MAX_DEPTH} levels: flatten them"
        )
    obligations = tuple(text.obligations)
    return Policy(text.uid, text.effect, condition, text.priority, text.description, obligations)


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


def _rule(element: Element, block: _Block | list[_Block], place: Place, as_py_abac: bool) -> Predicate:
    if isinstance(block, list):
        several = (_block(element, each, (*place, number), as_py_abac) for number, each in enumerate(block))
        return Or(tuple(several))
    return _block(element, block, place, as_py_abac)


def _block(element: Element, block: _Block, place: Place, as_py_abac: bool) -> Predicate:
    return And(
        tuple(_condition(element, path, value, (*place, path), as_py_abac) for path, value in block.items())
    )


def _condition(element: Element, path: str, value: object, place: Place, as_py_abac: bool) -> Predicate:
    try:
        where = read_path(element, path)
        condition: Condition = _convert(value, Condition, place)
        return condition.in_py_abac(where) if as_py_abac else condition.on(where)
    except InvalidPredicate as error:
        raise _Problem(place, str(error)) from None
    except RecursionError:
        raise _Problem(place, "the condition is nested too deep: flatten it") from None


def _convert(value: object, type_: object, place: Place) -> typing.Any:
    try:
        return msgspec.convert(value, type_)
    except msgspec.ValidationError as error:
        message, _, way = str(error).partition(" - at `$")
        unknown = re.findall(r"unknown field `(.*)`", message)
        raise _Problem((*place, *steps(way), *unknown), _plain(message, way)) from None


def _plain(message: str, way: str) -> str:
    unknown = re.fullmatch(r"Invalid value '(.*)'", message)
    if unknown and way.rstrip("`").endswith(".condition"):
        near = difflib.get_close_matches(unknown[1], NAMES, 1)
        return f"there is no condition `{unknown[1]}`" + (f": did you mean `{near[0]}`?" if near else "")
    return message[0].lower() + message[1:]
