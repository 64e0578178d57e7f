"""All the defences that can be taken away."""

from __future__ import annotations

from tests.mutations.answers import ANSWERS
from tests.mutations.backup import BACKUP
from tests.mutations.bus import BUS
from tests.mutations.carriage import CARRIAGE
from tests.mutations.clocks import CLOCKS
from tests.mutations.console import CONSOLE
from tests.mutations.events import EVENTS
from tests.mutations.gateway import GATEWAY
from tests.mutations.keys import KEYS
from tests.mutations.machine import MACHINE
from tests.mutations.mutation import Mutation
from tests.mutations.policies import POLICIES
from tests.mutations.roles import ROLES
from tests.mutations.trust import TRUST

MUTATIONS: list[Mutation] = [
    *BUS,
    *ANSWERS,
    *BACKUP,
    *CARRIAGE,
    *EVENTS,
    *CLOCKS,
    *CONSOLE,
    *GATEWAY,
    *KEYS,
    *MACHINE,
    *POLICIES,
    *ROLES,
    *TRUST,
]
