"""What `make fuzz` begins from is well formed, and what lies near it is refused in the fabric's own words."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.readers import READERS, one_input
from tests.fuzz.seeds import seeds

SEEDS = seeds()


@pytest.mark.parametrize("name", SEEDS)
def test_a_seed_is_understood(name):
    READERS[int(name[0])](SEEDS[name])


def test_every_reader_has_a_seed():
    assert {int(name[0]) for name in SEEDS} == set(range(len(READERS)))


@settings(max_examples=300)
@given(st.sampled_from(sorted(SEEDS)), st.integers(0), st.binary(min_size=1, max_size=8), st.integers(0, 8))
def test_a_seed_with_other_bytes_in_it_does_no_harm(name, place, bytes_, dropped):
    data = SEEDS[name]
    place %= len(data)
    one_input(bytes([int(name[0])]) + data[:place] + bytes_ + data[place + dropped :])
