"""A short run of the comparison that `make recycletest` makes at length."""

import pytest

from authz import change
from pdp.labels import difference as label_difference
from sdp_cache.inference.saam_blp import SaamBlp
from tests.sdp_cache.difftest import WrongInference, compare


def test_no_inferred_answer_ever_differs_from_what_the_reference_says_under_the_epoch_it_names():
    tally = compare(8_000)
    methods = ("precise", "saam-rbac", "saam-blp", "certificate")
    assert set(tally.inferred) == {f"{method} {effect}" for method in methods for effect in ("allow", "deny")}
    kinds = (change.Touched, change.Granted, change.Revoked, change.Relabelled, change.RelabelledBelow)
    assert set(tally.effects) == {kind.__name__ for kind in kinds}


def test_a_cache_that_keeps_what_has_another_label_would_be_found(monkeypatch):
    monkeypatch.setattr(SaamBlp, "apply", lambda self, change: None)
    with pytest.raises(WrongInference):
        compare(20_000)


def test_a_change_that_does_not_name_all_it_affects_would_be_found(monkeypatch):
    monkeypatch.setattr(label_difference, "_relabelled", lambda kind, old, new: iter(()))
    with pytest.raises(WrongInference):
        compare(20_000)
