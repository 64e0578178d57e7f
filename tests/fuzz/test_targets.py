"""What `make fuzz` begins from is well formed, and what lies near it is refused in the fabric's own words."""

from __future__ import annotations

from collections import defaultdict
from importlib import import_module

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authz.crypto.seal import Seal
from bus.wire.envelope import Unpack
from tests.fuzz.__main__ import CORPUS
from tests.fuzz.parsers import PARSERS, parsers
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


def test_whatever_decodes_bytes_has_a_target_or_a_reason_why_it_needs_none():
    found = {f"{file}:{name}": file for file, name in parsers()}
    assert {each for each, file in found.items() if not {each, file} & PARSERS.keys()} == set()
    assert PARSERS.keys() - {*found, *found.values()} == set(), "there is no such thing any more"
    targets = {each for each in PARSERS.values() if " " not in each}
    assert targets <= TARGETS.keys()


def test_what_is_said_to_have_a_target_is_read_by_it(monkeypatch):
    """Of messages and of what is signed, where that can be seen."""
    read = defaultdict[int, set[str]](set)
    now = ""

    def body(self, data, before=Unpack.body):
        read[id(self)].add(now)
        return before(self, data)

    def opened(self, data, verify, before=Seal._open):
        read[id(self)].add(now)
        return before(self, data, verify)

    monkeypatch.setattr(Unpack, "body", body)
    monkeypatch.setattr(Seal, "_open", opened)
    for target, readers in TARGETS.items():
        now = target
        for number in range(len(readers)):
            one_input(target, bytes([number, 0x90]))
    for now, data in SEEDS.values():
        one_input(now, data)
    for file, name in parsers():
        made = getattr(import_module(file.removesuffix(".py").replace("/", ".")), name, None)
        target = PARSERS.get(f"{file}:{name}", PARSERS[file])
        if isinstance(made, Unpack | Seal) and " " not in target:
            assert target in read[id(made)], f"{file}:{name}"
