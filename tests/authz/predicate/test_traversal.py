from hypothesis import given

from authz.predicate import (
    And,
    Equal,
    Exists,
    Not,
    Or,
    Path,
    Relate,
    comparisons,
    conjuncts,
    depth,
    map_comparisons,
    map_paths,
    paths,
)
from tests.authz import predicates as some

A, B, C = (Path("subject", (name,)) for name in "abc")
IS_A, SAME, HAS_C = Equal(A, 1), Relate(A, "==", B), Exists(C)
NESTED = And((IS_A, Or((SAME, Not(HAS_C))), And((HAS_C, And((IS_A,))))))


def test_comparisons_come_from_left_to_right():
    assert list(comparisons(NESTED)) == [IS_A, SAME, HAS_C, HAS_C, IS_A]


def test_both_sides_of_a_relation_are_paths():
    assert list(paths(Or((SAME, Not(HAS_C))))) == [A, B, C]


def test_conjunctions_inside_conjunctions_are_taken_apart_and_nothing_else():
    assert list(conjuncts(NESTED)) == [IS_A, Or((SAME, Not(HAS_C))), HAS_C, IS_A]


def test_every_and_or_and_not_is_one_level():
    assert [depth(each) for each in (IS_A, And(()), Not(IS_A), NESTED)] == [1, 1, 2, 4]


def test_each_comparison_is_replaced_where_it_stands():
    changed = map_comparisons(NESTED, lambda test: Not(test) if test == HAS_C else test)
    assert changed == And((IS_A, Or((SAME, Not(Not(HAS_C)))), And((Not(HAS_C), And((IS_A,))))))


def test_each_path_is_replaced_on_both_sides():
    assert map_paths(Not(SAME), lambda path: C if path == B else path) == Not(Relate(A, "==", C))


@given(some.predicates)
def test_with_nothing_to_change_a_predicate_stays_as_it_is(predicate):
    assert map_paths(predicate, lambda path: path) == predicate
