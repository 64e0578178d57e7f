"""What `make fuzz` begins from is well formed, and what lies near it is refused in the fabric's own words."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.__main__ import CORPUS
from tests.fuzz.seeds import inputs
from tests.fuzz.targets import TARGETS, one_input

SEEDS = {f"{target}/{name}": (target, data) for target, name, data in inputs()}
KEPT = sorted(each for each in CORPUS.glob("*/*"))


@pytest.mark.parametrize("name", SEEDS)
def test_a_seed_is_understood(name):
    target, data = SEEDS[name]
    list(TARGETS[target].values())[data[0]](data[1:])


def test_every_target_has_seeds_and_a_corpus_that_is_kept():
    assert {target for target, _ in SEEDS.values()} == TARGETS.keys()
    assert {each.parent.name for each in KEPT} == TARGETS.keys()


@pytest.mark.parametrize("path", KEPT, ids=lambda each: f"{each.parent.name}/{each.name}")
def test_what_is_kept_in_the_corpus_does_no_harm(path):
    one_input(path.parent.name, path.read_bytes())


@settings(max_examples=150)
@given(st.sampled_from(sorted(SEEDS)), st.integers(1), st.binary(min_size=1, max_size=8), st.integers(0, 8))
def test_a_seed_with_other_bytes_in_it_does_no_harm(name, place, bytes_, dropped):
    target, data = SEEDS[name]
    place = 1 + place % len(data)
    one_input(target, data[:place] + bytes_ + data[place + dropped :])
