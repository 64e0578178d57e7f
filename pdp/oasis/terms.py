"""Terms of role rules: constants, variables, atoms over them, and the matching that binds one to the other."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeGuard

from pdp.oasis.errors import InvalidTerm

Constant: TypeAlias = str | int
"""A parameter's value. Strings and integers only: `1`, `1.0` and `true` would be equal as dictionary keys."""

Bindings: TypeAlias = Mapping[str, Constant]


@dataclass(frozen=True, slots=True)
class Variable:
    """A name that stands for the same constant wherever it occurs in a rule; `_` stands for any, each time anew."""

    name: str

    def __str__(self) -> str:
        return self.name


Term: TypeAlias = Constant | Variable


@dataclass(frozen=True, slots=True)
class Atom:
    """A name applied to terms: a role, an appointment or a fact, depending on where it stands."""

    name: str
    args: tuple[Term, ...] = ()

    @property
    def variables(self) -> frozenset[str]:
        """The variables it binds."""
        return frozenset(t.name for t in self.args if isinstance(t, Variable) and t.name != "_")

    def __str__(self) -> str:
        """As it is written in a rule: constants quoted, variables bare."""
        return _applied(self.name, (str(t) if isinstance(t, Variable) else _literal(t) for t in self.args))


@dataclass(frozen=True, slots=True)
class Instance:
    """A ground atom: one role somebody is in, one appointment's content, one fact of the environment."""

    name: str
    params: tuple[Constant, ...] = ()

    def __post_init__(self) -> None:
        if not all(map(is_constant, self.params)):
            raise InvalidTerm(f"the parameters of `{self.name}` must be strings and integers of 64 bits")

    @classmethod
    def parse(cls, text: str) -> Instance:
        """Read the text form: there are no variables in it, so plain words are constants."""
        head = _HEAD.match(text)
        if head is None:
            raise InvalidTerm(f"`{text}` is not of the form `name(value, ...)`")
        if head.end() == len(text):
            return cls(text)
        params = tuple(_read_params(text, head.end()))
        return cls(head.group(), params)

    def __str__(self) -> str:
        return _applied(self.name, map(word, self.params))


def is_constant(value: object) -> TypeGuard[Constant]:
    """Whether it can be a parameter, and so stand in conditions and certificates: text, or an integer of 64 bits."""
    if isinstance(value, str):
        return value.isascii() or _is_unicode(value)
    return type(value) is int and value in _INTEGERS


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def match(pattern: Atom, instance: Instance, bindings: Bindings) -> dict[str, Constant] | None:
    """Extend `bindings` so that `pattern` becomes `instance`, or None if no extension does."""
    if pattern.name != instance.name or len(pattern.args) != len(instance.params):
        return None
    extended = dict(bindings)
    for term, value in zip(pattern.args, instance.params, strict=True):
        if not isinstance(term, Variable):
            expected = term
        elif term.name == "_":
            continue
        else:
            expected = extended.setdefault(term.name, value)
        if expected != value:
            return None
    return extended


def substitute(pattern: Atom, bindings: Bindings) -> Atom:
    """The pattern with every bound variable replaced by its value."""
    return Atom(
        pattern.name,
        tuple(bindings.get(t.name, t) if isinstance(t, Variable) else t for t in pattern.args),
    )


def ground(pattern: Atom, bindings: Bindings) -> Instance:
    """The instance that `pattern` is under `bindings`, which must bind all its variables."""
    return Instance(
        pattern.name, tuple(bindings[t.name] if isinstance(t, Variable) else t for t in pattern.args)
    )


def word(value: Constant) -> str:
    """A constant where no variable can stand: bare if unambiguous, else quoted."""
    return value if isinstance(value, str) and _WORD.fullmatch(value) else _literal(value)


def _literal(value: Constant) -> str:
    return json.dumps(value, ensure_ascii=False)


def _applied(name: str, args: Iterable[str]) -> str:
    inner = ", ".join(args)
    return f"{name}({inner})" if inner else name


_INTEGERS = range(-(2**63), 2**63)
_HEAD = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)
_WORD = re.compile(r"[A-Za-z_][\w.@:/-]*", re.ASCII)
_PARAM = re.compile(
    r"""\s*(?:(?P<word>[A-Za-z_][\w.@:/-]*)|(?P<number>-?\d+)|(?P<quoted>"(?:[^"\\]|\\.)*"))\s*(?P<end>[,)])""",
    re.ASCII,
)


def _read_params(text: str, start: int) -> Iterator[Constant]:
    """The parameters between the parentheses that open at `start` and must close at the very end."""
    position, end = start + 1, "," if text[start] == "(" else ""
    while end == ",":
        found = _PARAM.match(text, position)
        if found is None:
            break
        yield _read_constant(found)
        position, end = found.end(), found["end"]
    if end != ")" or position != len(text):
        raise InvalidTerm(f"`{text}` is not of the form `name(value, ...)`: see column {position + 1}")


def _read_constant(found: re.Match[str]) -> Constant:
    if found["word"] is not None:
        return found["word"]
    try:
        value: Constant = json.loads(found["number"] or found["quoted"])
    except ValueError:
        raise InvalidTerm(f"`{found[0].strip()}` is not a string or a number as JSON writes it") from None
    return value
