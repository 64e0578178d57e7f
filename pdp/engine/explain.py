"""Why a request is decided as it is: each policy that could matter, and what would have to be different for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import msgspec

from authz.decision import Decision, Effect
from authz.explanation import Change, Explanation, PolicyExplanation, shown
from authz.predicate import (
    REQUEST,
    And,
    Equal,
    Literal,
    Not,
    Or,
    Predicate,
    Relate,
    compile_predicate,
    paths,
)
from authz.predicate.compiler import compile_reader
from authz.predicate.reasoning import compile_witness
from authz.request import Request


@runtime_checkable
class Explains(Protocol):
    """A policy source that can say why."""

    def explain(self, request: Request) -> tuple[Sequence[PolicyExplanation], int]:
        """Its policies that are about the request's names, and how many more it has."""
        ...


def explain(sources: Sequence[object], request: Request, decision: Decision) -> Explanation:
    """The explanation of a decision: what determines it first, then what applies, then what comes nearest."""
    found: list[PolicyExplanation] = []
    others = 0
    for source in sources:
        if isinstance(source, Explains):
            explained, more = source.explain(request)
            found += explained
            others += more
    marked = [msgspec.structs.replace(each, determines=each.policy in decision.policies) for each in found]
    marked.sort(key=lambda each: (not each.determines, not each.applies, len(each.changes)))
    return Explanation(str(request), decision, tuple(marked), others)


def explain_policy(
    request: Request, policy: str, source: str, effect: Effect, condition: Predicate, description: str = ""
) -> PolicyExplanation:
    applies, reasons = compile_witness(condition, REQUEST)(request)
    changes = tuple(_change(each, request) for each in changes_to(condition, request, not applies) or ())
    because = tuple(_fact(each, request) for each in reasons) if applies else ()
    return PolicyExplanation(policy, source, effect, applies, changes, False, description, because)


def is_about(condition: Predicate, request: Request) -> bool:
    """Whether what the condition demands of the names of subject, object and action is so."""
    terms = condition.terms if isinstance(condition, And) else (condition,)
    return all(
        compile_predicate(each)(request) for each in terms if all(not path.keys for path in paths(each))
    )


def changes_to(condition: Predicate, request: Request, wanted: bool) -> tuple[Literal, ...] | None:
    """The fewest literals, none of which holds now, that would give the condition the wanted truth value.

    None if nothing would. Of several ways equally short, one that changes no names is preferred.
    """
    match condition:
        case Not(term):
            return changes_to(term, request, not wanted)
        case And(terms) | Or(terms):
            ways = [changes_to(each, request, wanted) for each in terms]
            possible = [each for each in ways if each is not None]
            if isinstance(condition, And) is not wanted:
                return min(possible, key=_effort, default=None)
            together = tuple(dict.fromkeys(literal for way in possible for literal in way))
            return together if len(possible) == len(ways) else None
    return () if compile_predicate(condition)(request) is wanted else (Literal(condition, wanted),)


def _effort(literals: tuple[Literal, ...]) -> tuple[int, int]:
    return len(literals), sum(not each.comparison.path.keys for each in literals)


def _change(literal: Literal, request: Request) -> Change:
    needs, path = _said(literal, request), literal.comparison.path
    return Change(needs, str(path), compile_reader(path, REQUEST)(request))


def _fact(literal: Literal, request: Request) -> str:
    """What holds, with the value it holds of unless that is said already."""
    if literal.holds and isinstance(literal.comparison, Equal) and not literal.comparison.fold:
        return str(literal)
    return str(_change(literal, request))


def _said(literal: Literal, request: Request) -> str:
    test = literal.comparison
    if not isinstance(test, Relate):
        return str(literal)
    return f"{literal} ({test.other} is {shown(compile_reader(test.other, REQUEST)(request))})"
