"""Whether a capability entitles a broker to the keys of some attributes, and for how long.

A key cannot be made to work for some values, hours or a number of uses only. So only what is granted without such
conditions counts here; with them, a capability is for clients, whose broker enforces them.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from authz.spki import Capability, Grant, Right
from pubsub_core.key_groups.rotation_schedule import Tenure
from pubsub_core.keys import AdmissionRefused

RIGHTS = (Right.PUBLISH, Right.SUBSCRIBE, Right.REPLAY)
"""Whoever may do one of these with attributes of a type needs their keys."""


def entitle(capability: Capability, type_name: str, attributes: Collection[str]) -> Tenure:
    """For how long it entitles to these attributes, by name, all at once. Raises AdmissionRefused."""
    grants = {grant for right in RIGHTS for grant in capability.authority.select(right, type_name)}
    if not any(_gives(grant, attributes) for grant in grants):
        raise AdmissionRefused("its capability does not grant all attributes of the group without conditions")
    validity = capability.validity
    return Tenure(validity.start, math.inf if validity.end is None else validity.end)


def _gives(grant: Grant, attributes: Collection[str]) -> bool:
    unconditional = not (grant.where or grant.windows or grant.rates)
    return unconditional and (grant.attributes is None or grant.attributes >= set(attributes))
