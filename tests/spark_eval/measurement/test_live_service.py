from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from pep import Strategy
from spark_eval.experiment.cell import Cell, Population
from spark_eval.experiment.outcome import point_to_point, publish_subscribe
from spark_eval.experiment.plan import Availability, Sweep
from spark_eval.experiment.sampling import Sample
from spark_eval.measurement.live_service import Place, find_places, live_measurements, replica_tasks, spans

SEED = 11
PLAN = Availability(
    population=Population(requests=300, objects=20, deadline=5.0),
    simulated_runs=4,
    block=2,
    live_runs=1,
    sweeps={"pdps": Sweep(live=True, pdps=(1, 3), overlap=(0.5,), mttf=(20.0,), mttr=(10.0,))},
)


async def live(plan, advance=lambda _: None):
    return pa.concat_tables([await each.watched(advance) for each in live_measurements(plan, SEED)])


def column(trace, place, variant):
    rows = [r for r in trace.to_pylist() if r["pdps"] == place.cell.pdps and r["variant"] == variant]
    return [r["failed"] == 0 for r in sorted(rows, key=lambda r: r["request"])]


async def test_a_live_run_is_its_simulated_twin_request_by_request():
    """Real NATS, real processes: what fails, and only that, is what the simulation says."""
    done = 0

    def advance(count):
        nonlocal done
        done += count

    trace = await live(PLAN, advance)
    assert done == trace.num_rows == 2 * 2 * 300
    for place in find_places(PLAN, SEED, 0):
        own = point_to_point(place.sample, PLAN.population).answered[place.row]
        fabric = publish_subscribe(place.sample, place.cell, PLAN.population).answered[place.row]
        assert not own.all()
        assert column(trace, place, "p2p") == own.tolist()
        assert column(trace, place, "pubsub") == fabric.tolist()
    asked = {row["pdps"]: row["asked"] for row in trace.to_pylist() if row["variant"] == "pubsub"}
    assert asked[1] >= 1  # the one PDP was given every question, and those in a failure again and again
    assert asked[3] > 1
    assert {row["asked"] for row in trace.to_pylist() if row["variant"] == "p2p"} == {None}
    times = [row["seconds"] is None for row in trace.to_pylist()]
    assert times == [row["failed"] == 1 for row in trace.to_pylist()]


async def test_a_live_queue_fails_where_all_that_serve_an_object_do_and_never_where_none_does():
    """In between, which replica gets a question is the server's choice."""
    sweep = Sweep(
        live=True, pdps=(3,), overlap=(0.5,), mttf=(20.0,), mttr=(10.0,), strategy=(Strategy.QUEUE,)
    )
    plan = msgspec.structs.replace(PLAN, sweeps={"queue": sweep})
    trace = await live(plan)
    (place,) = find_places(plan, SEED, 0)
    serving = place.sample.serves[place.row][:, place.sample.objects[place.row]]
    up = place.sample.up[place.row]
    answered = np.array(column(trace, place, "pubsub"))
    assert answered[(up | ~serving).all(axis=0)].all()
    assert not answered[~(up & serving).any(axis=0)].any()
    assert column(trace, place, "p2p") == up[0].tolist()
    assert not answered.all()


def test_later_runs_live_in_the_worlds_that_the_simulation_gives_them():
    plan = msgspec.structs.replace(PLAN, live_runs=3)
    first, third = (find_places(plan, SEED, run)[0] for run in (0, 2))
    assert (first.row, third.row) == (0, 0)
    assert not (first.sample.up == third.sample.up).all()


def test_a_replica_serves_its_objects():
    places = find_places(PLAN, SEED, 0)
    tasks = replica_tasks(places, "[]")
    assert len(tasks) == 3
    assert [sum(scope.startswith("object@") for scope in task.scopes) for task in tasks] == [40, 10, 10]
    assert [len(task.failures) for task in tasks] == [2, 1, 1]


@pytest.mark.parametrize(
    ("flags", "expected"),
    [([], []), ([1], [(0, 1)]), ([0, 1, 1, 0, 1], [(1, 3), (4, 5)]), ([0, 0], [])],
)
def test_spans_are_half_open(flags, expected):
    import numpy as np

    assert spans(np.array(flags, np.bool_)) == expected


@pytest.mark.parametrize(
    ("requests", "mttr", "batches"), [(5_000, 10.0, 50), (5_000, 40.0, 12), (300, 10.0, 10)]
)
def test_what_counts_as_one_observation_is_long_against_a_failure(requests, mttr, batches):
    place = Place("cell0", Cell(mttr=mttr), Sample(*[None] * 5), row=0, run=0)
    assert place.batches(requests) == batches


def test_cells_that_are_not_live_are_not_run():
    plan = Availability(sweeps={"x": Sweep(pdps=(2,))}, live_runs=1)
    assert find_places(plan, SEED, 0) == []
    assert plan.cells() == [Cell(2)]
