"""Which actions a privilege is for: names, or names with `*`, which stands for any text."""

from __future__ import annotations

import re

from authz.predicate import TRUE, AnyComparison, Equal, Glob, In, Or, Path, Predicate, Prefix

ACTION = Path("action")
ANY = "*"


def is_wild(action: str) -> bool:
    return ANY in action


def is_meant(pattern: str, action: str) -> bool:
    """Whether an action is one that the pattern stands for."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split(ANY))), action, re.DOTALL) is not None


def named(actions: tuple[str, ...]) -> tuple[str, ...]:
    """Those that are given by name."""
    return tuple(each for each in actions if not is_wild(each))


def about_one(pattern: str) -> AnyComparison:
    """That the action is one for which the pattern stands."""
    if not is_wild(pattern):
        return Equal(ACTION, pattern)
    start = pattern[:-1]
    return Prefix(ACTION, start) if not is_wild(start) else Glob(ACTION, re.sub(r"([?\[])", r"[\1]", pattern))


def about(actions: tuple[str, ...]) -> Predicate:
    """That the action is one of these; without any, every action is."""
    if not actions:
        return TRUE
    plain = named(actions)
    terms: list[Predicate] = [about_one(each) for each in actions if is_wild(each)]
    if plain:
        terms.insert(0, In(ACTION, plain) if len(plain) > 1 else Equal(ACTION, plain[0]))
    return terms[0] if len(terms) == 1 else Or(tuple(terms))
