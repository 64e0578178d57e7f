"""Who counts as being in a role: its holders and those of roles above it, exactly."""

from __future__ import annotations

import pytest

from pdp.oasis import Domains, Instance, parse
from pdp.oasis.errors import InvalidTerm
from pdp.oasis.role_hierarchy import RoleHierarchy

RANKS = """
role doctor(d)
role consultant(d)
role head(d, ward)
role nurse
role matron
consultant(d) > doctor(d)
matron > nurse
"""
SOME = f'{RANKS}head(d, "cardiology") > consultant(d)'
ANY = f"{RANKS}head(d, w) > consultant(d)"


def seniors(text: str) -> RoleHierarchy:
    return RoleHierarchy(Domains([parse(text, "ranks.oasis")]).everything())


def test_roles_above_count_by_name_and_with_their_parameters():
    ranks = seniors(RANKS)
    assert ranks.named("doctor") == ("doctor", "consultant")
    assert ranks.named("nurse") == ("nurse", "matron")
    assert seniors(ANY).named("doctor") == ("doctor", "consultant", "head")
    assert ranks.named("unheard") == ("unheard",)
    assert set(map(str, ranks.of(Instance("doctor", ("ann",))))) == {"doctor(ann)", "consultant(ann)"}
    assert set(map(str, ranks.of(Instance("nurse")))) == {"nurse", "matron"}


def test_a_role_above_of_which_some_holders_count_is_found_with_its_parameters_only():
    ranks = seniors(SOME)
    with pytest.raises(InvalidTerm, match="`doctor` needs its parameters here"):
        ranks.named("doctor")
    found = set(map(str, ranks.of(Instance("doctor", ("ann",)))))
    assert found == {"doctor(ann)", "consultant(ann)", "head(ann, cardiology)"}
    with pytest.raises(InvalidTerm, match="without number"):
        seniors(ANY).of(Instance("doctor", ("ann",)))
