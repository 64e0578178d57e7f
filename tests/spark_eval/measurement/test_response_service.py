from __future__ import annotations

from spark_eval.experiment.cell import Population
from spark_eval.measurement.response_service import FIGURES, Fabrics, draw_requests

POPULATION = Population(requests=300, objects=10, subjects=20, roles=3)


def unshipped(*_, **__):
    raise AssertionError("nothing as shipped is part of this")


async def test_a_pep_that_unsubscribes_leaves_nothing_behind():
    async with Fabrics(Population(objects=2), 1, unshipped) as fabrics:
        url = (await fabrics.start()).url
        left = {}
        for unsubscribes in (True, False):
            variant = await fabrics.subscribing_pep(url, unsubscribes)
            bus = variant.ask.__self__._bus
            left[unsubscribes] = len(bus._subscriptions)
        assert left[True] == 1  # its inbox
        assert left[False] > 50


def test_the_requests_depend_on_seed_and_figure_alone():
    assert draw_requests(POPULATION, 1, "a") == draw_requests(POPULATION, 1, "a")
    assert draw_requests(POPULATION, 1, "a") != draw_requests(POPULATION, 1, "b")
    assert draw_requests(POPULATION, 1, "a") != draw_requests(POPULATION, 2, "a")


def test_there_is_a_preparation_for_each_figure():
    assert set(FIGURES) == {"subscriptions", "unsubscribing", "recycling", "pdps", "transport"}
