"""How much caches answer by what they have learned."""

from __future__ import annotations

import random

import pytest

from pdp.bundle import Bundle, File, PolicySet
from spark_eval.experiment.variants import CERTIFICATES, PRECISE, SAAM
from spark_eval.measurement.hit_rates import ALLOWED, ANY, SHARES, count_hits, hospital

PEOPLE = 30


@pytest.fixture(scope="module")
def rates():
    return count_hits(PEOPLE, seed=1)


def rate(rates, asked, way, learned):
    return next(each for each in rates if (each.asked, each.way, each.learned) == (asked, way, learned))


@pytest.mark.parametrize("asked", [ANY, ALLOWED])
def test_precise_recycling_answers_what_was_learned_and_nothing_else(rates, asked):
    for learned in SHARES:
        found = rate(rates, asked, PRECISE, learned)
        assert found.rate == pytest.approx(learned, abs=0.05)


@pytest.mark.parametrize("asked", [ANY, ALLOWED])
def test_inference_answers_more_and_certificates_most(rates, asked):
    found = [rate(rates, asked, way, 0.1).rate for way in (PRECISE, SAAM, CERTIFICATES)]
    assert found == sorted(set(found))


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
