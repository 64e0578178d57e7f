"""A release counts if a trusted key made it for this domain, and names the one before it."""

from __future__ import annotations

import pytest

from authz import Identity
from authz.change import PolicyChange, Touched
from authz.predicate import Equal, Path
from authz.release import Release, Released, ReleaseRefused, sign_release

ANN, EVE = Identity.generate(), Identity.generate()


def released(sequence: int = 1, domain: str = "shop", by: Identity = ANN, **more) -> Released:
    data = sign_release(Release(domain, sequence, "b" * 64, (), 0.0, **more), by)
    return Released.open(data, "shop", {ANN.public})


def test_a_release_says_what_it_changes_and_its_number_is_the_epoch():
    effect = Touched(Equal(Path("object"), "/a"))
    assert released(2, effects=(effect,)).change == PolicyChange(2, 1, (effect,))
    assert released(2).epoch == 2


@pytest.mark.parametrize("how", [{"by": EVE}, {"domain": "bank"}])
def test_a_release_by_a_stranger_or_for_another_domain_is_refused(how):
    with pytest.raises(ReleaseRefused, match="not"):
        released(**how)


def test_a_release_follows_only_the_one_it_names():
    first = released(1)
    assert released(2, before=first.hash).follows(first)
    assert not released(3, before=first.hash).follows(first)
    assert not released(2, before="0" * 64).follows(first)
