"""How much caches answer by what they have learned."""

from __future__ import annotations

import random

import pytest

from authz import Basis, Entity, Request
from pdp.bundle import Bundle, File, PolicySet
from spark_eval.experiment.variants import CERTIFICATES, PRECISE, SAAM
from spark_eval.measurement.hit_rates import (
    ALLOWED,
    ANY,
    LOOKED_UP,
    SHARES,
    by_attributes,
    by_rules,
    count_hits,
    hospital,
)

PEOPLE = 30


@pytest.fixture(scope="module")
def rates():
    return count_hits(PEOPLE, seed=1)


def rate(rates, asked, way, learned):
    return next(each for each in rates if (each.asked, each.way, each.learned) == (asked, way, learned))


@pytest.mark.parametrize("asked", [ANY, ALLOWED, LOOKED_UP])
def test_precise_recycling_answers_what_was_learned_and_nothing_else(rates, asked):
    for learned in SHARES:
        found = rate(rates, asked, PRECISE, learned)
        assert found.rate == pytest.approx(learned, abs=0.05)


@pytest.mark.parametrize("asked", [ANY, ALLOWED])
def test_inference_answers_more_and_certificates_most(rates, asked):
    found = [rate(rates, asked, way, 0.1).rate for way in (PRECISE, SAAM, CERTIFICATES)]
    assert found == sorted(set(found))


def test_roles_that_pdps_look_up_are_learned_from_as_those_that_requests_carry(rates):
    """Certificates that rest on what was looked up speak of one subject, and so answer nothing else."""
    for learned in SHARES:
        found = {way: rate(rates, LOOKED_UP, way, learned).rate for way in (PRECISE, SAAM, CERTIFICATES)}
        assert found[SAAM] == pytest.approx(rate(rates, ANY, SAAM, learned).rate, abs=0.1)
        assert found[CERTIFICATES] == found[PRECISE] < found[SAAM]


def test_attribute_policies_with_roles_looked_up_decide_as_role_rules_do():
    place = hospital(PEOPLE, random.Random(3))
    for (carried, ruled), (bare, looked_up) in zip(by_rules(place), by_attributes(place), strict=True):
        assert bare == Request(Entity(carried.subject.id), carried.object, carried.action)
        assert looked_up.allowed is ruled.allowed
        assert looked_up.basis is Basis.ROLES
        assert set(looked_up.roles.names) == set(carried.subject.attributes["roles"])


def test_the_same_seed_gives_the_same_rates(rates):
    assert count_hits(PEOPLE, seed=1) == rates
    assert count_hits(PEOPLE, seed=2) != rates


def test_the_engine_decides_as_the_hospital_grants():
    place = hospital(PEOPLE, random.Random(3))
    engine = PolicySet.read(Bundle.of([File("hospital.oasis", place.rules())])).engine()
    decided = {True: 0, False: 0}
    for request in random.Random(4).sample(list(place.requests()), 500):
        holders = place.grants[request.action.id, request.object.id]
        allowed = engine.evaluate(request).allowed
        assert allowed is not set(holders).isdisjoint(request.subject.attributes["roles"])
        decided[allowed] += 1
    assert min(decided.values()) > 0
