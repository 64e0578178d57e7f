"""How many questions caches answer, by how many answers they have learned, in a hospital made up for the purpose.

As on the papers' data, any subject may ask for anything, and a cache has learned a random part of all possible
answers. Beside it, what is harder: nobody asks for what is refused, so that refusals teach nothing; and the same
hospital with attribute policies in place of role rules, whose PDPs look roles up that requests do not carry.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from authz import Decision, Entity, Request
from authz.change import ROLES
from pdp.attributes import CachingProvider, Enricher, Known
from pdp.bundle import Bundle, File, PolicySet, Root
from sdp_cache import Recycler, Recycling
from spark_eval.experiment import HitRate, variants

WARDS = 12
IN_WARD = {"record": 15, "rota": 2, "stock": 2, "invoice": 3}
"""How many objects of each kind a ward has."""
COMMON = 24
"""Objects that are nobody's: guidelines, notices, the formulary."""
ACTIONS = ("read", "write")
FUNCTIONS = {"nurse": 60, "doctor": 25, "clerk": 10, "head": 5}
"""How often each is somebody's function, in percent."""
EXTRA = ("pharmacist", "auditor", "trainer", "on_call")
"""What one in ten is besides."""
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4)
"""Of all possible answers: how many the cache has learned."""
ASKED = 2_000
ANY, ALLOWED = "anything possible is asked", "only what is allowed is asked"
LOOKED_UP = "anything possible is asked, by attribute policies and with roles that PDPs look up"
WAYS = {
    variants.PRECISE: ("precise",),
    variants.SAAM: ("precise", "saam_rbac"),
    variants.CERTIFICATES: ("precise", "certificates"),
}
PLENTY = 1_000_000
FOR_EVER = 1e9
"""Seconds for which roles that were looked up may be relied on: time stands still here."""

Grants = dict[tuple[str, str], tuple[str, ...]]
"""Which roles may do this to that: by action and object."""


@dataclass(frozen=True, slots=True)
class Hospital:
    """Who has which roles, and which of them may do what."""

    subjects: Sequence[Entity]
    grants: Grants

    @property
    def roles(self) -> list[str]:
        """Those that may do anything."""
        return sorted(set().union(*self.grants.values()))

    def requests(self) -> Iterator[Request]:
        """All that can be asked."""
        for subject, (action, object_) in product(self.subjects, self.grants):
            yield Request(subject, Entity(object_), Entity(action))

    def rules(self) -> str:
        """The role rules, as anybody would write them."""
        lines = [f"|- {role}" for role in self.roles]
        lines += [
            f'{role} |- privilege({action}, "{object_}")'
            for (action, object_), roles in self.grants.items()
            for role in roles
        ]
        return "\n".join(lines)

    def attribute_policies(self) -> str:
        """The same as attribute policies, one for each permission."""
        policies = [
            {
                "uid": f"{action} {object_}",
                "effect": "allow",
                "targets": {"resource_id": object_, "action_id": action},
                "rules": {"subject": {"$.roles": {"condition": "AnyIn", "values": list(roles)}}},
            }
            for (action, object_), roles in self.grants.items()
        ]
        return json.dumps(policies)


class Roster:
    """Where PDPs look roles up."""

    name, problem = "roster", ""
    provides = frozenset({ROLES})

    def __init__(self, subjects: Sequence[Entity]) -> None:
        self._known = {each.id: Known(each.attributes, FOR_EVER) for each in subjects}

    async def look_up(self, root: Root, ids: frozenset[str]) -> Mapping[str, Known]:
        return {each: self._known[each] for each in ids}


def hospital(people: int, chance: random.Random) -> Hospital:
    """Everybody is staff, has a function, and has it in a ward; one in seven stands in in another."""
    return Hospital([_person(n, chance) for n in range(people)], _grants(chance))


def _person(number: int, chance: random.Random) -> Entity:
    function = chance.choices(list(FUNCTIONS), list(FUNCTIONS.values()))[0]
    wards = chance.sample(range(WARDS), 2 if chance.random() < 1 / 7 else 1)
    roles = ["staff", function, *(f"{function}_{ward}" for ward in wards)]
    if chance.random() < 1 / 10:
        roles.append(chance.choice(EXTRA))
    return Entity(f"person{number}", {"roles": roles})


def _grants(chance: random.Random) -> Grants:
    found: Grants = {}
    for ward in range(WARDS):
        here = {function: f"{function}_{ward}" for function in FUNCTIONS}
        may = {
            "record": ((here["nurse"], here["doctor"], "on_call"), (here["doctor"],)),
            "rota": (tuple(here.values()), (here["head"],)),
            "stock": (("nurse", "pharmacist"), (here["nurse"], here["head"], "pharmacist")),
            "invoice": ((here["clerk"], here["head"], "auditor"), (here["clerk"],)),
        }
        for kind, count in IN_WARD.items():
            for number, (action, roles) in product(range(count), zip(ACTIONS, may[kind], strict=True)):
                found[action, f"/ward/{ward}/{kind}/{number}"] = roles
    for number in range(COMMON):
        found["read", f"/common/{number}"] = ("staff",)
        found["write", f"/common/{number}"] = (chance.choice(EXTRA), chance.choice(["doctor", "head"]))
    return found


def count_hits(people: int, seed: int) -> list[HitRate]:
    """Ask caches that have learned more and more. The same seed gives the same rates."""
    chance = random.Random(seed)
    place = hospital(people, chance)
    every = by_rules(place)
    rates: list[HitRate] = []
    for asked, possible in (
        (ANY, every),
        (ALLOWED, [each for each in every if each[1].allowed]),
        (LOOKED_UP, by_attributes(place)),
    ):
        chance.shuffle(possible)
        tried = chance.choices(possible, k=ASKED)
        for way, uses in WAYS.items():
            rates += _rates(asked, way, _recycler(uses), possible, [request for request, _ in tried])
    return rates


def by_rules(place: Hospital) -> list[tuple[Request, Decision]]:
    """All that can be asked with what PDPs answer by role rules."""
    engine = PolicySet.read(Bundle.of([File("hospital.oasis", place.rules())])).engine(certify=True)
    return [(request, engine.evaluate(request)) for request in place.requests()]


def by_attributes(place: Hospital) -> list[tuple[Request, Decision]]:
    """The same by attribute policies; requests name no roles."""
    files = [
        File("bundle.yaml", f"provided: [{ROLES}]"),
        File("hospital.json", place.attribute_policies()),
    ]
    policies = PolicySet.read(Bundle.of(files))
    engine = policies.engine(certify=True)
    roster = CachingProvider(Roster(place.subjects), lambda: 0.0, seconds=FOR_EVER, lifetime=FOR_EVER)
    enricher = Enricher(policies, [roster])
    requests = [Request(Entity(each.subject.id), each.object, each.action) for each in place.requests()]
    enriched = asyncio.run(enricher.enrich(requests))
    decided = [enricher.settle(each, engine.evaluate(each.request)) for each in enriched]
    return list(zip(requests, decided, strict=True))


def _rates(
    asked: str,
    way: str,
    cache: Recycler,
    possible: Sequence[tuple[Request, Decision]],
    tried: Sequence[Request],
) -> Iterator[HitRate]:
    known = 0
    for share in SHARES:
        until = int(share * len(possible))
        for request, decision in possible[known:until]:
            cache.learn(request, decision, 0, "an answer")
        known = until
        yield HitRate(
            asked, way, share, sum(cache.infer(each, 0.0) is not None for each in tried), len(tried)
        )


def _recycler(uses: Sequence[str]) -> Recycler:
    off = dict.fromkeys(("precise", "saam_rbac", "saam_blp", "certificates"), 0)
    return Recycler(Recycling(**{**off, **dict.fromkeys(uses, PLENTY)}))
