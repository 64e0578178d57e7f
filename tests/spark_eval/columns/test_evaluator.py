"""The columnar backend says of every row what the compiled closure says."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authz import Entity, Request
from authz.predicate import And, Equal, Not, Overlaps, Path, Suffix, compile_predicate
from spark_eval.columns.evaluator import holds
from spark_eval.columns.table import ArrowSource, JsonSource, Table, UnreadableColumn
from tests.authz import predicates as some


def table_of(requests):
    return Table(
        len(requests),
        {
            "subject": JsonSource([r.subject.attributes for r in requests], [r.subject.id for r in requests]),
            "object": JsonSource([r.object.attributes for r in requests], [r.object.id for r in requests]),
            "action": JsonSource([r.action.attributes for r in requests], [r.action.id for r in requests]),
            "context": JsonSource([r.context for r in requests]),
        },
    )


@settings(max_examples=60, deadline=None)
@given(some.predicates, st.lists(some.requests, max_size=8))
def test_json_rows_are_judged_as_the_closure_judges_them(predicate, requests):
    closure = compile_predicate(predicate)
    assert holds(predicate, table_of(requests)).tolist() == [closure(each) for each in requests]


TYPED = [
    pa.string(),
    pa.large_string(),
    pa.dictionary(pa.int32(), pa.string()),
    pa.int64(),
    pa.float64(),
    pa.bool_(),
    pa.null(),
    pa.list_(pa.string()),
    pa.list_(pa.int64()),
    pa.large_list(pa.string()),
    pa.list_(pa.list_(pa.string())),
    pa.struct([("a", pa.string()), ("b", pa.int64())]),
    pa.map_(pa.string(), pa.string()),
]


def values_of(type_):
    if pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_dictionary(type_):
        kind = some.texts
    elif pa.types.is_integer(type_):
        kind = st.sampled_from([0, 1, 2, -1, 2**53 + 1])
    elif pa.types.is_floating(type_):
        kind = st.sampled_from([0.0, 1.0, 2.5, math.nan, math.inf])
    elif pa.types.is_boolean(type_):
        kind = st.booleans()
    elif pa.types.is_map(type_):
        kind = st.dictionaries(st.sampled_from("ab"), some.texts, max_size=2)
    elif pa.types.is_struct(type_):
        kind = st.fixed_dictionaries({field.name: values_of(field.type) for field in type_})
    elif pa.types.is_null(type_):
        return st.none()
    else:
        kind = st.lists(values_of(type_.value_type), max_size=3)
    return st.one_of(st.none(), kind)


def without_nulls(value):
    if isinstance(value, dict):
        return {name: without_nulls(each) for name, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value


PATHS = [
    Path("subject"),
    *(Path("subject", keys) for keys in [("a",), ("a", "a"), ("a", 0), ("a", -1), ("b",)]),
]


comparisons = some.comparisons_on(st.sampled_from(PATHS))


@pytest.mark.parametrize("type_", TYPED, ids=str)
def test_typed_rows_are_judged_as_the_closure_judges_them(type_):
    @settings(max_examples=25, deadline=None)
    @given(comparisons, st.lists(values_of(type_), max_size=6))
    def agree(predicate, values):
        check(predicate, values, type_)

    agree()


def check(predicate, values, type_):
    names = [f"n{n}" for n in range(len(values))]
    column = pa.array(
        [list(v.items()) if pa.types.is_map(type_) and v is not None else v for v in values], type_
    )
    table = Table(len(values), {"subject": ArrowSource(pa.table({"id": names, "a": column}))})
    requests = [
        Request.of(Entity(name, {"a": without_nulls(value)}), "o", "a")
        for name, value in zip(names, values, strict=True)
    ]
    closure = compile_predicate(predicate)
    assert holds(predicate, table).tolist() == [closure(each) for each in requests]


def test_a_cross_puts_each_row_beside_each_of_the_other():
    objects = Table(2, {"object": JsonSource([{}, {"secret": True}], ["/a", "/b"])})
    actions = Table(3, {"action": JsonSource([{}] * 3, ["read", "write", "list"])})
    condition = And((Equal(Path("object", ("secret",)), True), Not(Equal(Path("action"), "list"))))
    assert holds(condition, objects.cross(actions)).tolist() == [False, False, False, True, True, False]


def test_text_that_arrow_cannot_hold_is_still_judged():
    table = Table(2, {"subject": JsonSource([{}, {}], ["\ud800x", "x"])})
    assert holds(Suffix(Path("subject"), "x"), table).tolist() == [True, True]
    assert holds(Equal(Path("subject"), "x"), table).tolist() == [False, True]


def test_a_column_of_no_json_type_is_refused_by_name():
    table = Table(
        1, {"subject": ArrowSource(pa.table({"id": ["a"], "born": pa.array([0], pa.timestamp("s"))}))}
    )
    with pytest.raises(UnreadableColumn, match=r"the column `born` is of the type timestamp\[s\]: write it"):
        holds(Equal(Path("subject", ("born",)), 1), table)


def test_sharing_a_list_column_between_many_roles_changes_nothing():
    roles = pa.array([["a", "b"], [], None, ["c", "c"]], pa.list_(pa.string()))
    table = Table(4, {"subject": ArrowSource(pa.table({"id": list("wxyz"), "roles": roles}))})
    held = {role: holds(Overlaps(Path("subject", ("roles",)), (role,)), table).tolist() for role in "abcd"}
    assert held == {
        "a": [True, False, False, False],
        "b": [True, False, False, False],
        "c": [False, False, False, True],
        "d": [False, False, False, False],
    }
