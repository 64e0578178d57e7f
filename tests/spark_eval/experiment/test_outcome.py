"""Outcomes against a slow reading of the same rules, one request at a time."""

from __future__ import annotations

import numpy as np
import pytest

from pep.asking.strategy import Strategy
from spark_eval.experiment.cell import Cache, Cell, Population
from spark_eval.experiment.outcome import point_to_point, publish_subscribe
from spark_eval.experiment.sampling import draw_sample

POPULATION = Population(requests=400, objects=10, subjects=6, roles=2, deadline=0.1)


def servers(sample, run, request):
    return [pdp for pdp in range(sample.up.shape[1]) if sample.serves[run, pdp, sample.objects[run, request]]]


def ask(sample, strategy, run, request):
    """Whether it is answered, and by how many deliveries."""
    serving = servers(sample, run, request)
    working = [pdp for pdp in serving if sample.up[run, pdp, request]]
    unlucky = 1 - len(working) / len(serving)
    luck, attempts = sample.luck[run, request], POPULATION.attempts
    if strategy is Strategy.FLOOD:
        return bool(working), len(serving) * (1 if working else attempts)
    if strategy is Strategy.HEDGE:
        more = len(serving) * (1 if working else attempts - 1)
        return bool(working), 1 + more if luck < unlucky else 1
    for attempt in range(1, attempts + 1):
        if luck >= unlucky**attempt:
            return True, attempt
    return False, attempts


def replay(sample, cell, run):
    known = set()
    for request in range(POPULATION.requests):
        subject, thing = sample.subjects[run, request], sample.objects[run, request]
        question = (subject if cell.cache is Cache.PRECISE else subject % POPULATION.roles, thing)
        if cell.cache is not Cache.NONE and question in known:
            yield True, True, 0
            continue
        answered, asked = ask(sample, cell.strategy, run, request)
        if answered:
            known.add(question)
        yield answered, False, asked


@pytest.mark.parametrize("strategy", Strategy)
@pytest.mark.parametrize("cache", Cache)
@pytest.mark.parametrize("common", [0.0, 0.5])
def test_whole_arrays_give_what_request_by_request_gives(strategy, cache, common):
    cell = Cell(4, 0.5, mttf=20, mttr=15, common=common, strategy=strategy, cache=cache)
    sample = draw_sample(cell, POPULATION, seed=3, block=0, runs=3)
    outcome = publish_subscribe(sample, cell, POPULATION)
    for run in range(3):
        answered, recycled, asked = zip(*replay(sample, cell, run), strict=True)
        assert outcome.answered[run].tolist() == list(answered)
        assert outcome.recycled[run].tolist() == list(recycled)
        assert outcome.asked[run] == pytest.approx(asked)


def test_point_to_point_is_answered_when_the_own_pdp_works():
    sample = draw_sample(Cell(3), POPULATION, seed=3, block=0, runs=2)
    outcome = point_to_point(sample, POPULATION)
    assert np.array_equal(outcome.answered, sample.up[:, 0])
    assert set(np.unique(outcome.asked)) == {1.0, float(POPULATION.attempts)}


def test_whatever_point_to_point_answers_flooding_answers():
    sample = draw_sample(Cell(3), POPULATION, seed=3, block=0, runs=2)
    assert (
        point_to_point(sample, POPULATION).answered <= publish_subscribe(sample, Cell(3), POPULATION).answered
    ).all()
