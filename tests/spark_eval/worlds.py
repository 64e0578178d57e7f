"""Small random worlds: policies, entities, and what the engine says of every request."""

from __future__ import annotations

from hypothesis import strategies as st

from authz import Entity
from authz.decision import Effect
from authz.predicate import Path
from pdp.abac.policy import Algorithm, Policy
from spark_eval.columns.table import JsonSource, Table
from tests.authz import predicates as some

ACTIONS = ["read", "write"]
PATHS = [
    Path("subject"),
    Path("object"),
    Path("action"),
    Path("subject", ("a",)),
    Path("subject", ("b",)),
    Path("object", ("a",)),
    Path("context", ("a",)),
]


def conditions(paths):
    return some.predicates_of(some.comparisons_on(st.sampled_from(paths)))


def policies(paths=PATHS, most=5):
    condition = conditions(paths)
    one = st.tuples(st.sampled_from(Effect), condition, st.integers(0, 2))
    return st.lists(one, min_size=1, max_size=most).map(
        lambda several: [Policy(f"p{n}", *each) for n, each in enumerate(several)]
    )


values = st.sampled_from([None, "a", "ab", "b", 1, 1.0, 2, True, ["a"], ["a", "b"], {"a": 1}])
attributes = st.fixed_dictionaries({"a": values, "b": values})
entities = st.lists(attributes, min_size=1, max_size=5)


def table_of(root, several):
    names = [entity.id for entity in several]
    return Table(len(names), {root: JsonSource([entity.attributes for entity in several], names)})


algorithms = st.sampled_from(Algorithm)


def named(prefix, several):
    return [Entity(f"{prefix}{n}", each) for n, each in enumerate(several)]
