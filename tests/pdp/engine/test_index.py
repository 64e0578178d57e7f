"""The index finds exactly the items whose conditions hold, and tries few of the others."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from authz import Entity, Request
from authz.predicate import And, Equal, Glob, In, Not, Or, Order, Overlaps, Path, Prefix, compile_predicate
from pdp.engine.access_predicates import Dimension, guards, settles
from pdp.engine.index import Index
from tests.authz import predicates as some

OBJECT, DEPT = Path("object"), Path("subject", ("dept",))


@given(st.lists(some.predicates, max_size=40), st.lists(some.requests, min_size=5, max_size=5))
@settings(max_examples=40)
def test_the_index_finds_what_trying_all_would_find(conditions, requests):
    index = Index((condition, number) for number, condition in enumerate(conditions))
    for request in requests:
        found: list[int] = []
        index.search(request, found.append)
        assert set(found) == {n for n, each in enumerate(conditions) if compile_predicate(each)(request)}


@given(some.predicates, some.requests)
@settings(max_examples=60)
def test_a_condition_holds_only_where_each_guard_has_a_key(condition, request):
    if compile_predicate(condition)(request):
        for dimension, needed in guards(condition).items():
            if all(isinstance(key, str) for key in needed):
                assert any(compile_predicate(_test(dimension, key))(request) for key in needed)


def _test(dimension: Dimension, key: str):
    if dimension.kind == "is":
        return Equal(dimension.path, key)
    return Prefix(dimension.path, key) if dimension.kind == "under" else Overlaps(dimension.path, (key,))


def test_guards_of_what_policies_are_made_of():
    assert guards(Equal(OBJECT, "/a"))[Dimension("is", OBJECT)] == {"/a"}
    assert guards(Glob(OBJECT, "/a/*/b")) == {Dimension("under", OBJECT): {"/a/"}}
    assert guards(Or((Prefix(OBJECT, "/a"), Equal(OBJECT, "/b")))) == {
        Dimension("under", OBJECT): {"/a", "/b"}
    }
    assert guards(Or((Prefix(OBJECT, "/a"), Equal(DEPT, "x")))) == {}
    assert guards(Not(Equal(OBJECT, "/a"))) == {}
    assert list(guards(Or(())).values()) == [frozenset()]


def test_a_key_found_settles_the_terms_it_came_from_and_no_others():
    found = Dimension("is", OBJECT)
    assert settles(found, "/a", Equal(OBJECT, "/a"))
    assert settles(found, "/a", In(OBJECT, ("/b", "/a")))
    assert not settles(found, "/a", Equal(OBJECT, "/a", True))
    assert not settles(found, "/a", Equal(OBJECT, "/b"))
    assert not settles(Dimension("under", OBJECT), "/a", Equal(OBJECT, "/a"))


class Counting(dict):
    """Attributes that count how often they are looked at."""

    looked = 0

    def get(self, name, default=None):
        self.looked += 1
        return super().get(name, default)


def test_only_candidates_are_tried():
    level = Path("context", ("level",))
    conditions = [
        And((Prefix(OBJECT, f"/p{n}/"), Equal(DEPT, f"d{n % 7}"), Order(level, ">", n % 5)))
        for n in range(2000)
    ]
    index = Index((condition, number) for number, condition in enumerate(conditions))
    context, found = Counting(level=9), []
    index.search(Request.of(Entity("ann", {"dept": "d3"}), "/p1004/x", "read", context), found.append)
    assert found == [1004]
    assert context.looked <= 2


def test_items_that_share_a_key_are_divided_by_another():
    conditions = [
        And((Prefix(OBJECT, "/docs/"), Equal(DEPT, f"d{n}"), Order(Path("context", ("level",)), ">", 1)))
        for n in range(500)
    ]
    index = Index((condition, number) for number, condition in enumerate(conditions))
    context, found = Counting(level=9), []
    index.search(Request.of(Entity("ann", {"dept": "d77"}), "/docs/x", "read", context), found.append)
    assert found == [77]
    assert context.looked <= 2
