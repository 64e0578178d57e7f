"""The five kinds of scope: how they are written, how they contain each other, and what is known of them."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz import Request
from bus.errors import InvalidScope
from bus.wire.scopes import Kind, Scope, ScopeTable, own_scope, under, widest
from tests.bus.scopes import scopes


@contextlib.contextmanager
def counting_calls() -> Iterator[Callable[[], int]]:
    """How many functions are called in a block, as a measure of its work that no other process disturbs."""
    events: Counter[str] = Counter()
    sys.setprofile(lambda frame, event, argument: events.update([event]))
    try:
        yield lambda: events["call"] + events["c_call"]
    finally:
        sys.setprofile(None)


class TestText:
    @given(scopes)
    def test_what_is_written_reads_back(self, scope):
        assert Scope.parse(str(scope)) == scope

    @pytest.mark.parametrize(
        ("text", "scope"),
        [
            ("broadcast", Scope(Kind.BROADCAST)),
            ("domain:shop", Scope(Kind.DOMAIN, "shop")),
            ("prefix:/sales/", Scope(Kind.PREFIX, "default", "/sales")),
            ("prefix:/", Scope(Kind.PREFIX, "default", "/")),
            ("prefix://", Scope(Kind.PREFIX, "default", "/")),
            ("prefix@shop:/a", Scope(Kind.PREFIX, "shop", "/a")),
            ("object:/sales/New York", Scope(Kind.OBJECT, "default", "/sales/New York")),
            ("object:urn:x:y", Scope(Kind.OBJECT, "default", "urn:x:y")),
            ("tuple:alice,/sales/a,b,read", Scope(Kind.TUPLE, "default", "/sales/a,b", "alice", "read")),
            ("tuple:cn=a%2Cdc=b,/x,read", Scope(Kind.TUPLE, "default", "/x", "cn=a,dc=b", "read")),
        ],
    )
    def test_the_five_forms(self, text, scope):
        assert Scope.parse(text) == scope

    def test_prefixes_objects_and_tuples_lie_in_the_domain_given(self):
        assert Scope.parse("prefix:/a", "shop").domain == "shop"
        assert Scope.parse("prefix@other:/a", "shop").domain == "other"

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "everything",
            "broadcast:x",
            "broadcast@shop",
            "domain",
            "domain:",
            "domain@shop:x",
            "prefix:",
            "object:",
            "tuple:",
            "tuple:a,b",
            "tuple:,b,c",
            "tuple:a,,c",
            "tuple:a,b,",
            "object:\udcff",
            "domain:" + "d" * 200,
        ],
    )
    def test_anything_else_is_refused(self, text):
        with pytest.raises(InvalidScope):
            Scope.parse(text)

    def test_the_refusal_says_what_would_be_right(self):
        with pytest.raises(InvalidScope, match=r"`everything` is not a scope: use broadcast, domain:NAME"):
            Scope.parse("everything")


class TestContainment:
    @given(scopes, scopes)
    def test_two_scopes_are_disjoint_or_one_contains_the_other(self, one, other):
        """So no request lies in both unless all requests of one of them do."""
        if one.contains(other) or other.contains(one):
            return
        common = [s for s in (one, other) if s.kind is Kind.TUPLE]
        assert not any(one.contains(s) and other.contains(s) for s in common)

    @given(scopes, scopes, scopes)
    def test_whoever_holds_a_common_part_is_comparable(self, one, other, inner):
        if one.contains(inner) and other.contains(inner):
            assert one.contains(other) or other.contains(one)

    @given(scopes, scopes, scopes)
    def test_containment_is_an_order(self, one, two, three):
        assert one.contains(one)
        if one.contains(two) and two.contains(one):
            assert one == two
        if one.contains(two) and two.contains(three):
            assert one.contains(three)

    @given(st.lists(scopes))
    def test_the_widest_cover_all_and_none_covers_another(self, given_scopes):
        kept = widest(given_scopes)
        assert set(kept) <= set(given_scopes)
        assert all(any(k.contains(s) for k in kept) for s in given_scopes)
        assert not any(one.contains(other) for one in kept for other in kept if one is not other)

    def test_the_widest_of_twice_as_many_are_found_in_twice_the_steps(self):
        def steps(count: int) -> int:
            several = [
                Scope.parse(f"{kind}:/{number}/x") for number in range(count) for kind in ("prefix", "object")
            ]
            with counting_calls() as calls:
                assert len(widest(several)) == count
            return calls()

        assert steps(1000) < 3 * steps(500)

    def test_paths_lie_below_by_whole_segments(self):
        assert under("/sales", "/sales")
        assert under("/sales", "/sales/q1")
        assert under("/", "anything")
        assert not under("/sales", "/salesmen")
        assert not under("/sales/q1", "/sales")


class TestTable:
    request = Request.of("alice", "/sales/q1", "read")

    @given(st.lists(scopes))
    def test_the_narrowest_announced_scope_is_found(self, announced):
        table = ScopeTable()
        table.announce(announced, now=0.0, ttl=1.0)
        for domain, object_id in [("default", "/a/b"), ("shop", "a"), ("a:b", "/")]:
            request = Request.of("a", object_id, "b")
            own = own_scope(domain, request)
            holding = [scope for scope in announced if scope.contains(own)]
            expected = max(holding, key=lambda s: (s.kind, len(s.object.strip("/"))), default=None)
            assert table.narrowest(domain, request) == expected

    def test_what_is_not_announced_again_is_forgotten(self):
        table = ScopeTable()
        sales, hr = Scope.parse("prefix:/sales"), Scope.parse("prefix:/hr")
        table.announce([sales, hr], now=0.0, ttl=3.0)
        table.announce([sales], now=2.0, ttl=3.0)
        table.expire(now=3.0)
        assert list(table) == [sales]
        assert hr not in table

    def test_its_version_changes_exactly_with_the_set(self):
        table = ScopeTable()
        scope = Scope.parse("prefix:/sales")
        table.announce([scope], now=0.0, ttl=1.0)
        first = table.version
        table.announce([scope], now=0.5, ttl=1.0)
        table.expire(now=1.0)
        assert table.version == first
        table.withdraw(scope)
        assert table.version != first

    def test_it_knows_whether_tuples_are_among_them(self):
        table = ScopeTable()
        exact = Scope.parse("tuple:alice,/x,read")
        table.announce([exact, Scope.parse("prefix:/x")], now=0.0, ttl=1.0)
        assert table.has_tuples
        table.withdraw(exact)
        table.withdraw(exact)
        assert not table.has_tuples

    def test_a_flood_of_announcements_is_bounded(self):
        table = ScopeTable(limit=10)
        table.announce([Scope(Kind.OBJECT, "default", str(n)) for n in range(100)], now=0.0, ttl=1.0)
        assert len(table) == 10
        known = Scope(Kind.OBJECT, "default", "3")
        table.announce([Scope(Kind.OBJECT, "default", "new"), known], now=0.5, ttl=1.0)
        table.expire(now=1.2)
        assert list(table) == [known]  # what is known is still refreshed

    def test_each_announcer_has_room_of_its_own(self):
        table = ScopeTable(limit=10)
        many = [Scope(Kind.OBJECT, "default", str(n)) for n in range(100)]
        table.announce(many, now=0.0, ttl=1.0, announcer=b"greedy")
        table.announce(many[50:55], now=0.0, ttl=2.0, announcer=b"modest")
        assert list(table) == [*many[:10], *many[50:55]]
        table.expire(now=1.0)
        table.announce(many[60:], now=1.0, ttl=1.0, announcer=b"greedy")
        assert list(table) == [*many[50:55], *many[60:70]]

    def test_a_scope_lasts_as_long_as_whoever_repeats_it_least_often_says(self):
        table = ScopeTable()
        scope = Scope.parse("prefix:/sales")
        table.announce([scope], now=0.0, ttl=30.0, announcer=b"one of many pages")
        table.announce([scope], now=1.0, ttl=3.0, announcer=b"the only page")
        table.expire(now=10.0)
        assert scope in table
        table.expire(now=30.0)
        assert scope not in table
