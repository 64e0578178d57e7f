"""A short run of the comparison that `make recycletest` makes at length."""

import pytest

from authz import change
from pdp.abac import role_grants
from pdp.labels import difference as label_difference
from sdp_cache.inference.saam_blp import SaamBlp
from sdp_cache.inference.saam_rbac import SaamRbac
from sdp_cache.point.cache_sizes import Recycling
from tests.sdp_cache.difftest import WrongInference, compare


def test_no_inferred_answer_ever_differs_from_what_the_reference_says_under_the_epoch_it_names():
    tally = compare(8_000)
    methods = ("precise", "saam-rbac", "saam-blp", "certificate")
    assert set(tally.inferred) == {
        f"{method} {effect}{how}"
        for method in methods
        for effect in ("allow", "deny")
        for how in ("", " (roles looked up)")
    }
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


BY_ROLES = Recycling(precise=0, certificates=0, saam_blp=0)


def test_policies_for_whom_more_than_roles_decides_would_be_found(monkeypatch):
    monkeypatch.setattr(role_grants, "concern", lambda condition: condition)
    with pytest.raises(WrongInference):
        compare(20_000, kinds="ga", looked_up=False, recycling=BY_ROLES)


def test_roles_that_are_kept_longer_than_the_pdp_relies_on_them_would_be_found(monkeypatch):
    monkeypatch.setattr(SaamRbac, "_holder", lambda self, subject, now: self._holders[subject])
    with pytest.raises(WrongInference):
        compare(20_000, kinds="g", looked_up=True, recycling=BY_ROLES)
