"""What may be asked, and what the refusal of anything else says."""

from __future__ import annotations

import enum
import operator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz import Entity, InvalidRequest, Request
from authz import request as requests_module
from authz.request import MAX_BYTES, plain_request

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
attributes = st.dictionaries(st.text(max_size=5), json_values, max_size=3)
names = st.text(min_size=1, max_size=12)
entities = st.builds(Entity, names, attributes)
requests = st.builds(Request, entities, entities, entities, attributes)


class TestShortForm:
    def test_strings_stand_for_entities_without_attributes(self):
        assert Request.of("alice", "/x", "read") == Request(Entity("alice"), Entity("/x"), Entity("read"))

    def test_entities_and_context_are_kept(self):
        request = Request.of(Entity("alice", {"age": 7}), "/x", "read", {"hour": 9})
        assert request.subject.attributes == {"age": 7}
        assert request.context == {"hour": 9}

    @pytest.mark.parametrize(
        "fill",
        [
            lambda attributes: attributes.update(role="admin"),
            lambda attributes: attributes.setdefault("role", "admin"),
            lambda attributes: operator.setitem(attributes, "role", "admin"),
            lambda attributes: operator.ior(attributes, {"role": "admin"}),
        ],
    )
    def test_what_nobody_claimed_cannot_be_filled_in_for_everybody(self, fill):
        request = Request.of("alice", "/x", "read")
        for attributes in (request.subject.attributes, request.context, Entity("bob").attributes):
            with pytest.raises(TypeError, match="make another"):
                fill(attributes)
        assert Request.of("bob", "/x", "read").subject.attributes == {}

    def test_a_member_of_an_enumeration_is_the_text_it_holds(self):
        class Action(enum.StrEnum):
            READ = "read"

        class Old(str, enum.Enum):  # noqa: UP042 - this older form prints otherwise
            READ = "read"

        for action in (Action.READ, Old.READ):
            request = Request.of("alice", "/x", action)
            assert request == Request.of("alice", "/x", "read")
            assert type(request.action.id) is str

    def test_it_reads_as_a_sentence(self):
        assert str(Request.of("alice", "/sales/q1", "read")) == "alice read /sales/q1"


class TestValidation:
    @pytest.mark.parametrize(
        "thing",
        [
            "/sales/budget/New York",
            "a..b",
            "/a/.b",
            "/a/..b/c",
            "*",
            ">",
            "/a//b",
            "\x00\r\n",
            "ünïcode",
            "/",
        ],
    )
    def test_any_other_name_may_be_asked(self, thing):
        Request.of("alice", thing, "read").validate()

    @pytest.mark.parametrize(
        "thing", [".", "..", "/a/./b", "/a/../b", "../x", "x/..", "/.", "/public/../sales"]
    )
    def test_dots_that_lead_elsewhere_are_refused(self, thing):
        with pytest.raises(InvalidRequest, match=r"`object\.id` must not have `\.` or `\.\.` as a segment"):
            Request.of("alice", thing, "read").validate()

    def test_dots_mean_nothing_in_subjects_and_actions(self):
        Request.of("..", "/x", ".").validate()

    @pytest.mark.parametrize("field", ["subject", "object", "action"])
    @pytest.mark.parametrize(
        ("wrong", "where", "problem"),
        [
            ("", ".id", "must not be empty"),
            (7, "", "must be a string or an Entity, not int"),
            (Entity(7), ".id", "must be a string, not int"),
            (Entity("x", ["a"]), ".attributes", "must be a dictionary, not list"),
            ("half \ud800", ".id", "must be Unicode text"),
        ],
    )
    def test_the_refusal_names_the_field(self, field, wrong, where, problem):
        parts = {"subject": "alice", "object": "/x", "action": "read", field: wrong}
        with pytest.raises(InvalidRequest, match=problem) as raised:
            Request.of(**parts).validate()
        assert raised.value.field == field + where
        assert str(raised.value).startswith(f"`{field}{where}` ")

    def test_a_string_in_the_place_of_an_entity_is_refused_with_what_to_do(self):
        with pytest.raises(InvalidRequest, match=r"`subject` must be an Entity, not str: `Request\.of`"):
            Request("alice", "/x", "read").validate()

    @pytest.mark.parametrize("field", ["subject", "object", "action"])
    def test_the_longest_names_are_counted_in_bytes(self, field):
        limit = MAX_BYTES[field]
        parts = {"subject": "alice", "object": "/x", "action": "read"}
        for letter in ("a", "é"):
            name = letter * (limit // len(letter.encode()))
            Request.of(**{**parts, field: name}).validate()
            with pytest.raises(InvalidRequest, match=f"must be at most {limit} bytes long") as raised:
                Request.of(**{**parts, field: name + letter}).validate()
            assert raised.value.field == f"{field}.id"

    def test_a_context_that_is_no_dictionary_is_named(self):
        with pytest.raises(InvalidRequest, match="`context` must be a dictionary, not list"):
            Request.of("alice", "/x", "read", ["noon"]).validate()

    @given(names, names, names)
    def test_what_is_plain_is_valid(self, subject, thing, action):
        request = Request.of(subject, thing, action)
        if request.is_plain():
            whole = Request.of(subject, thing, action, {"not": "plain"})
            assert not whole.is_plain()
            whole.validate()

    @given(names, names, names)
    def test_what_is_made_of_plain_names_is_valid_and_the_same_each_time(self, subject, thing, action):
        first, again = plain_request(subject, thing, action), plain_request(subject, thing, action)
        assert first == again
        if first is not None:
            assert first == Request.of(subject, thing, action)
            Request.of(subject, thing, action, {"not": "plain"}).validate()

    @pytest.mark.parametrize(
        "name",
        ["", ".", "..", "/a/../b", "é", "x" * 200, None, 7, Entity("alice"), Request.of("a", "b", "c")],
    )
    @pytest.mark.parametrize("place", range(3))
    def test_what_may_be_no_good_name_is_never_plain(self, name, place):
        parts = ["alice", "alice", "alice"]
        assert plain_request(*parts) is not None
        parts[place] = name
        assert plain_request(*parts) is None

    def test_only_so_many_plain_names_are_remembered(self, monkeypatch):
        monkeypatch.setattr(requests_module, "NAMES_KEPT", 8)
        monkeypatch.setattr(requests_module, "_plain", {})
        for n in range(100):
            assert plain_request("alice", f"/{n}", "read") == Request.of("alice", f"/{n}", "read")
        assert len(requests_module._plain) <= 8


class TestKey:
    @given(requests, requests)
    def test_two_requests_have_one_key_exactly_if_nothing_differs(self, one, other):
        same = msgspec.msgpack.encode(one, order="sorted") == msgspec.msgpack.encode(other, order="sorted")
        assert (one.key == other.key) == same
        assert hash(one.key) == hash(one.key)

    def test_the_order_of_attributes_is_no_difference(self):
        one = Request.of(Entity("alice", {"a": 1, "b": 2}), "/x", "read")
        other = Request.of(Entity("alice", {"b": 2, "a": 1}), "/x", "read")
        assert one.key == other.key

    def test_where_an_attribute_stands_is_a_difference(self):
        one = Request.of(Entity("alice", {"a": 1}), "/x", "read")
        other = Request.of("alice", Entity("/x", {"a": 1}), "read")
        assert one.key != other.key

    def test_true_one_and_one_point_nought_differ(self):
        keys = {Request.of("alice", "/x", "read", {"a": value}).key for value in (True, 1, 1.0, "1")}
        assert len(keys) == 4
