"""Boxes at a steady pace: an empty one looks like any other, and nobody else can open or make one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubsub_core.keys.errors import CannotOpen
from pubsub_core.keys.steady import MAX_BOX_BYTES, SIZES, boxfuls, open_box, seal_box

SECRET = b"s" * 32
messages = st.lists(st.tuples(st.integers(0, 1), st.binary(max_size=400)), max_size=6)


@given(messages)
def test_what_is_in_a_box_comes_out_again(content):
    assert open_box(SECRET, "a", seal_box(SECRET, "a", content)) == content


@given(messages)
def test_a_box_with_little_in_it_is_as_large_as_an_empty_one(content):
    empty, box = (len(seal_box(SECRET, "a", each)) for each in ([], content))
    assert box == empty


def test_an_empty_box_is_never_twice_the_same():
    assert seal_box(SECRET, "a", []) != seal_box(SECRET, "a", [])


@pytest.mark.parametrize(("secret", "sender"), [(b"t" * 32, "a"), (SECRET, "b")])
def test_a_box_opens_only_with_its_secret_and_from_its_sender(secret, sender):
    with pytest.raises(CannotOpen):
        open_box(secret, sender, seal_box(SECRET, "a", [(0, b"x")]))


@given(st.binary(max_size=80))
def test_what_is_no_box_cannot_be_opened(data):
    with pytest.raises(CannotOpen):
        open_box(SECRET, "a", data)


def test_what_does_not_fit_one_box_goes_in_several():
    large = [(0, bytes(MAX_BOX_BYTES - 1)), (1, b"xy"), (0, b"z")]
    assert boxfuls(large) == [large[:1], large[1:]]
    assert boxfuls([]) == [[]]
    assert len(seal_box(SECRET, "a", large[:1])) == len(seal_box(SECRET, "a", [])) - SIZES[0] + SIZES[-1]
