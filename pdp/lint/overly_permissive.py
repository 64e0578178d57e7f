"""Which policies allow everything to everyone: one by itself, several together, and rules of roles that anybody has.

Sound, not complete: what is found is so, whatever other policies deny. Every name is a string with something in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from authz.decision import Effect
from authz.predicate import (
    TRUE,
    And,
    AnyComparison,
    Contains,
    Exists,
    Glob,
    Kind,
    Not,
    Or,
    Order,
    Predicate,
    Prefix,
    Regex,
    Suffix,
    comparisons,
    covers,
    disjoint,
    map_comparisons,
    satisfiable,
)
from pdp.abac import Policy
from pdp.oasis import (
    PRINCIPAL,
    Activation,
    Atom,
    Authorisation,
    Constraint,
    Fact,
    Prerequisite,
    Rulebook,
    Variable,
)

NAMED = ("subject", "object", "action")
MOST = 64
"""Maximum policies considered together; what only more of them allow is not found."""

_ANYTHING = re.compile(r"(?:\^|\\A)?(?:\(\?s:)?\.[*+]\??\)?(?:\$|\\Z)?|[\^$]|\\A|\\Z|\.|")
"""Regular expressions that match every name without line breaks."""


def lavish(policies: Iterable[Policy]) -> Iterator[tuple[Policy, Sequence[Policy]]]:
    """Each policy that allows everything to everyone, with the others that it takes for that."""
    allows = [(each, _of_names(each.condition)) for each in policies if each.effect is Effect.ALLOW]
    alone = [each for each, condition in allows if covers(condition, TRUE)]
    together = [] if alone else _together(allows)
    for policy in alone:
        yield policy, ()
    for policy in together:
        yield policy, [each for each in together if each is not policy]


def lavish_rules(rulebook: Rulebook) -> Iterator[Authorisation]:
    """Rules without conditions that give a role which anybody may activate every action on every object."""
    given = anybodys(rulebook)
    for rule in rulebook.authorisations:
        every_action = not rule.actions or any(not each.strip("*") for each in rule.actions)
        every_object = rule.pattern.deep and not rule.pattern.segments
        if every_action and every_object and rule.role.name in given and _of_all(rule.role, rule.constraints):
            yield rule


def anybodys(rulebook: Rulebook) -> frozenset[str]:
    """The roles that anybody may activate, by what the rules say, by full name."""
    found = set[str]()
    rules = [each for several in rulebook.activations.values() for each in several]
    edges = [each for several in rulebook.seniorities.values() for each in several]
    while True:
        more = {each.role.name for each in rules if _for_anybody(each, found)}
        more |= {
            each.junior.name for each in edges if each.senior.name in more | found and _free(each.senior)
        }
        if more <= found:
            return frozenset(found)
        found |= more


def _for_anybody(rule: Activation, known: set[str]) -> bool:
    """Whether everybody fulfils the conditions, who may have the `known` roles."""
    seen = set[str]()
    for each in rule.conditions:
        match each:
            case Constraint(predicate) if covers(_of_names(predicate), TRUE):
                continue
            case Fact(Atom(name) as atom) if name == PRINCIPAL:
                pass
            case Prerequisite(Atom(name) as atom) if name in known:
                pass
            case _:
                return False
        if not _free(atom) or seen & atom.variables:
            return False
        seen |= atom.variables
    return True


def _of_all(role: Atom, constraints: Iterable[Constraint]) -> bool:
    return _free(role) and all(covers(_of_names(each.predicate), TRUE) for each in constraints)


def _free(atom: Atom) -> bool:
    """Whether its parameters may be any: variables, each once."""
    names = [each.name for each in atom.args if isinstance(each, Variable) and each.name != "_"]
    return len(names) == len(set(names)) and all(isinstance(each, Variable) for each in atom.args)


def _of_names(condition: Predicate) -> Predicate:
    """What a condition says of requests, all of which name somebody, something and an action."""
    return map_comparisons(condition, lambda test: TRUE if _of_every_name(test) else test)


def _of_every_name(test: AnyComparison) -> bool:
    if test.path.keys or test.path.root not in NAMED:
        return False
    match test:
        case Exists():
            return True
        case Kind():
            return test.kind == "string"
        case Prefix() | Suffix() | Contains():
            return not test.value
        case Order():
            return test.op in (">", ">=") and test.value == ""
        case Glob():
            return not test.pattern.strip("*?") and "*" in test.pattern and test.pattern.count("?") < 2
        case Regex():
            return _ANYTHING.fullmatch(test.pattern) is not None
    return False


def _together(allows: Sequence[tuple[Policy, Predicate]]) -> list[Policy]:
    """Policies that leave nothing out between them: first those for whoever no policy knows, then what they lack."""
    wide = [each for each in allows if _of_strangers(each[1])][:MOST]
    if not wide:
        return []
    left = _outside(wide)
    rest = (each for each in sorted(allows, key=lambda each: _length(each[1])) if each not in wide)
    found = [*wide, *(each for each in list(rest)[:MOST] if not disjoint(each[1], left))]
    if satisfiable(_outside(found)):
        return []
    for each in reversed(found):
        others = [other for other in found if other is not each]
        if not satisfiable(_outside(others)):
            found = others
    return [policy for policy, _ in found]


def _outside(several: Iterable[tuple[Policy, Predicate]]) -> Predicate:
    return And(tuple(Not(condition) for _, condition in several))


def _length(condition: Predicate) -> int:
    return sum(1 for _ in comparisons(condition))


def _of_strangers(condition: Predicate) -> bool:
    """Whether it holds where nothing is known: of names that no policy has, and of no attributes."""
    if isinstance(condition, And):
        return all(map(_of_strangers, condition.terms))
    if isinstance(condition, Or):
        return any(map(_of_strangers, condition.terms))
    return isinstance(condition, Not) and not _of_strangers(condition.term)
