from __future__ import annotations

import pytest
import uvloop

from spark_eval.experiment.cell import Population
from spark_eval.experiment.plan import ResponseTime
from spark_eval.experiment.response_service import (
    FIGURES,
    FILTERS,
    HEDGED,
    KEEPS,
    NOTHING,
    ONE_INBOX,
    PRECISE,
    RECYCLING,
    SAAM,
    UNSUBSCRIBES,
    Fabrics,
    SubscribingPep,
    Variant,
    count_requests,
    draw_requests,
    run_response_times,
)
from spark_eval.schemas import TRACE

PLAN = ResponseTime(
    requests=100,
    windows=5,
    subscriptions=(5, 20),
    pdps=(1, 2),
    recycling=Population(requests=300, objects=10, subjects=20, roles=3),
)


@pytest.fixture(scope="module")
def trace():
    done = []
    table = uvloop.run(run_response_times(PLAN, 1, done.append))
    assert sum(done) == table.num_rows
    return table


def rows(trace, figure, variant):
    return [row for row in trace.to_pylist() if (row["figure"], row["variant"]) == (figure, variant)]


def test_every_variant_is_asked_every_request(trace):
    assert trace.schema == TRACE
    assert trace.num_rows == count_requests(PLAN)
    variants = {(row["figure"], row["variant"]) for row in trace.to_pylist()}
    assert variants == {
        ("subscriptions", "5 objects"), ("subscriptions", "20 objects"),
        ("subscriptions", f"5 objects, {FILTERS}"), ("subscriptions", f"20 objects, {FILTERS}"),
        ("unsubscribing", ONE_INBOX), ("unsubscribing", UNSUBSCRIBES), ("unsubscribing", KEEPS),
        ("unsubscribing", f"{UNSUBSCRIBES}, {FILTERS}"), ("unsubscribing", f"{KEEPS}, {FILTERS}"),
        ("recycling", NOTHING), ("recycling", PRECISE), ("recycling", SAAM),
        ("pdps", "1 PDP"), ("pdps", "2 PDPs"), ("pdps", f"2 PDPs, {HEDGED}"),
    }  # fmt: skip
    for figure, variant in variants:
        numbers = [row["request"] for row in rows(trace, figure, variant)]
        assert numbers == list(range(300 if figure == RECYCLING else 100))


def test_every_answer_takes_time_and_none_fails(trace):
    assert all(row["seconds"] > 0 and row["failed"] == 0 for row in trace.to_pylist())


def test_what_is_recycled_is_what_was_asked_before_or_follows_by_role(trace):
    """Each subject has one role, so for SAAM-RBAC the questions of a role are all the same."""
    requests = draw_requests(PLAN.recycling, 1, RECYCLING)
    for variant, question in (
        (PRECISE, lambda request: (request.subject.id, request.object.id)),
        (SAAM, lambda request: (request.subject.attributes["roles"][0], request.object.id)),
    ):
        seen, expected = set(), []
        for request in requests:
            expected.append(int(question(request) in seen))
            seen.add(question(request))
        assert [row["recycled"] for row in rows(trace, RECYCLING, variant)] == expected


def test_nothing_is_recycled_elsewhere(trace):
    assert {row["recycled"] for row in trace.to_pylist() if row["variant"] not in (PRECISE, SAAM)} == {0}


async def test_a_pep_that_unsubscribes_leaves_nothing_behind():
    async with Fabrics(Population(objects=2), seed=1) as fabrics:
        url = await fabrics.start()
        left = {}
        for unsubscribes in (True, False):
            variant = await fabrics.subscribing_pep(url, unsubscribes)
            bus = variant.ask.__self__._bus
            left[unsubscribes] = len(bus._subscriptions)
        assert left[True] == 1  # its inbox
        assert left[False] > 50


def test_the_requests_depend_on_seed_and_figure_alone():
    population = PLAN.recycling
    assert draw_requests(population, 1, "a") == draw_requests(population, 1, "a")
    assert draw_requests(population, 1, "a") != draw_requests(population, 1, "b")
    assert draw_requests(population, 1, "a") != draw_requests(population, 2, "a")


def test_there_is_a_preparation_for_each_figure_of_the_paper():
    assert set(FIGURES) == {"subscriptions", "unsubscribing", "recycling", "pdps"}
    assert Variant(SubscribingPep.check).settle is not None
