"""A short run of the comparison that `make difftest` makes at length."""

from __future__ import annotations

from typing import get_args

import pytest

from pdp.abac import Algorithm, source
from pdp.abac.conditions import Condition
from tests.pdp.difftest import Disagreement, compare


def test_engine_reference_and_py_abac_agree():
    tally = compare(1500, first_seed=10)
    assert tally.requests == 1500
    assert set(tally.conditions) == {each.__struct_config__.tag for each in get_args(Condition)}
    assert set(tally.algorithms) == set(Algorithm)
    assert set(tally.outcomes) == {"allow", "deny", "no policy"}


def test_a_difference_would_be_found(monkeypatch):
    monkeypatch.setattr(source.AbacSource, "_combine", lambda self, found: found[0].verdict)
    with pytest.raises(Disagreement, match="engine: "):
        compare(2000)
