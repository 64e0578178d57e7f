"""Refutation: literals, true of a request, that together imply that none of several conditions holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, cast

from authz.errors import AuthFabricError
from authz.predicate import REQUEST, And, Certificate, Literal, Not, Or, Predicate
from authz.predicate.compiler import Emitter
from authz.predicate.reasoning import compile_witness
from authz.request import Request

Refuter: TypeAlias = Callable[[Request, Callable[[Literal], object]], object]
"""Yields literals true of the request; wherever they all hold, none of the conditions does."""

MOST_TESTS = 512
"""Maximum distinct literals of conditions tried for one request."""


class TooManyRivals(AuthFabricError):
    """To refute all these conditions would take more than it is worth."""


def demands(condition: Predicate) -> tuple[Certificate, tuple[Predicate, ...]]:
    """The literals that a condition demands, and what it demands beside them."""
    literals: list[Literal] = []
    others: list[Predicate] = []
    for term in condition.terms if isinstance(condition, And) else (condition,):
        if isinstance(term, Not) and not isinstance(term.term, (And, Or, Not)):
            literals.append(Literal(term.term, False))
        elif isinstance(term, (And, Or, Not)):
            others.append(term)
        else:
            literals.append(Literal(term))
    return tuple(literals), tuple(others)


def compile_refuter(
    conditions: Sequence[Predicate], intern: Callable[[Literal], Literal], always: Certificate = ()
) -> Refuter:
    """A greedy cover: what many conditions demand is tried first, until each has something that is false.

    The conditions still to be refuted are the bits of one number. Literals given as `always` are handed over as well.
    With more to try than MOST_TESTS the refuter raises TooManyRivals.
    """
    covered: dict[Literal, int] = {}
    for number, condition in enumerate(conditions):
        for literal in demands(condition)[0]:
            covered[literal] = covered.get(literal, 0) | 1 << number
    if len(covered) > MOST_TESTS:
        return _give_up
    emitter = Emitter(REQUEST)
    lines = [f"left = {(1 << len(conditions)) - 1}"]
    for literal in sorted(covered, key=lambda each: -covered[each].bit_count()):
        opposite = emitter.constant(intern(Literal(literal.comparison, not literal.holds)))
        bits, test = covered[literal], emitter.term(literal.predicate)
        lines.append(f"if left & {bits} and not {test}: add({opposite}); left &= {~bits}")
    for number, condition in enumerate(conditions):
        if demands(condition)[1]:
            witness = emitter.constant(compile_witness(condition, REQUEST))
            lines.append(f"if left & {1 << number}: {emitter.constant(_add_all)}({witness}(it), add)")
    lines += [f"add({emitter.constant(intern(each))})" for each in always]
    return cast("Refuter", emitter.function("it, add", lines))


def _give_up(request: Request, add: Callable[[Literal], object]) -> None:
    raise TooManyRivals


def _add_all(witness: tuple[bool, Certificate], add: Callable[[Literal], object]) -> None:
    for literal in witness[1]:
        add(literal)
