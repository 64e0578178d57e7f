"""Why a predicate is true or false of something: a few of its comparisons, with their outcomes, that settle it.

Invariant: whatever these literals hold of, the predicate has the same truth value there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

from authz.predicate.compiler import Layout, compile_predicate
from authz.predicate.terms import And, AnyComparison, Certificate, Literal, Not, Or, Predicate

T = TypeVar("T")
Witness: TypeAlias = Callable[[T], tuple[bool, Certificate]]
"""Says whether the predicate holds, and the literals that imply it."""


def compile_witness(predicate: Predicate, layout: Layout[T]) -> Witness[T]:
    """The function that says whether the predicate holds, and by which literals."""
    match predicate:
        case And(terms):
            return _junction([compile_witness(each, layout) for each in terms], True)
        case Or(terms):
            return _junction([compile_witness(each, layout) for each in terms], False)
        case Not(term):
            return _opposite(compile_witness(term, layout))
    return _comparison(predicate, layout)


def _comparison(test: AnyComparison, layout: Layout[T]) -> Witness[T]:
    holds = compile_predicate(test, layout)
    outcomes = ((False, (Literal(test, False),)), (True, (Literal(test),)))
    return lambda it: outcomes[holds(it)]


def _opposite(witness: Witness[T]) -> Witness[T]:
    def opposite(it: T) -> tuple[bool, Certificate]:
        holds, literals = witness(it)
        return not holds, literals

    return opposite


def _junction(witnesses: Sequence[Witness[T]], all_needed: bool) -> Witness[T]:
    """One term settles it if it differs from `all_needed`; otherwise all of them together do."""

    def junction(it: T) -> tuple[bool, Certificate]:
        together: dict[Literal, None] = {}
        for witness in witnesses:
            holds, literals = witness(it)
            if holds is not all_needed:
                return holds, literals
            together.update(dict.fromkeys(literals))
        return all_needed, tuple(together)

    return junction
