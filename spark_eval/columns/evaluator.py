"""From predicate to whole tables: which rows it holds of, as one array of booleans.

The second backend of the algebra, with the compiled closure as its measure. A comparison is tested once for each
distinct value of its column and then spread over the rows; where no kernel of Arrow or numpy means exactly what the
closure means (letters in either case, regular expressions, networks, documents), the closure itself tests those
distinct values. Invariant: `holds(predicate, table)[row]` is what `compile_predicate(predicate)` says of that row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from authz.predicate import And, AnyComparison, Not, Or, Predicate, Relate
from authz.predicate.values import RELATIONS
from spark_eval.columns.column import Column, Outcomes
from spark_eval.columns.table import Table


class Evaluator:
    """Predicates over one table. Each comparison is evaluated once, however many policies share it."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._known: dict[AnyComparison, Outcomes] = {}

    def holds(self, predicate: Predicate) -> Outcomes:
        """The rows of which the predicate holds. The array is shared: copy it before changing it."""
        if isinstance(predicate, And):
            return self._join(np.logical_and, predicate.terms, True)
        if isinstance(predicate, Or):
            return self._join(np.logical_or, predicate.terms, False)
        if isinstance(predicate, Not):
            return ~self.holds(predicate.term)
        found = self._known.get(predicate)
        if found is None:
            found = self._known[predicate] = self._compare(predicate)
        return found

    def _join(
        self, operation: Callable[[Outcomes, Outcomes], Outcomes], terms: Iterable[Predicate], neutral: bool
    ) -> Outcomes:
        rows = np.full(self._table.rows, neutral)
        for term in terms:
            rows = operation(rows, self.holds(term))
        return rows

    def _compare(self, test: AnyComparison) -> Outcomes:
        column = self._table.column(test.path)
        if isinstance(test, Relate):
            return _relate(column, test.op, self._table.column(test.other))
        return column.test(test)


def _relate(left: Column, op: str, right: Column) -> Outcomes:
    """The relation is asked once for each pair of values that stand in one row somewhere."""
    relation = RELATIONS[op]
    width = len(right.values) + 1
    pairs, rows = np.unique((left.codes + 1) * width + right.codes + 1, return_inverse=True)
    ours, theirs = left.values.objects, right.values.objects
    outcomes = [relation(ours[pair // width - 1], theirs[pair % width - 1]) for pair in pairs.tolist()]
    return np.array(outcomes, dtype=np.bool_)[rows]


def holds(predicate: Predicate, table: Table) -> Outcomes:
    """The rows of the table of which the predicate holds."""
    return Evaluator(table).holds(predicate)
