from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from spark_eval.experiment.cell import Cell, Population
from spark_eval.experiment.plan import InvalidExperiment, dump, load, parse, shipped

LEAST = "seed: 1\navailability: {sweeps: {pdps: {pdps: [1, 2]}}}\nresponse_time: {}\n"


@pytest.mark.parametrize("name", ["full", "quick"])
def test_the_plans_that_come_with_the_package_can_be_read(name):
    plan = load(shipped(name))
    assert plan.availability.population.requests == 5_000
    assert set(plan.availability.sweeps) >= {"pdps", "overlap"}


def test_the_quick_plan_is_the_full_one_with_fewer_repetitions():
    quick, full = load(shipped("quick")), load(shipped("full"))
    assert quick.availability.cells() == full.availability.cells()
    assert quick.availability.simulated_runs < full.availability.simulated_runs


def test_a_plan_written_down_is_the_same_plan():
    plan = load(shipped("full"))
    assert parse(dump(plan)) == plan


def test_the_parts_of_plans_that_the_page_shows_can_be_read():
    """Each is part of a plan; together with the least of a plan it is one."""
    text = (Path(__file__).parents[3] / "docs/experiments.md").read_text()
    parts = [yaml.safe_load(part) for part in re.findall(r"^```yaml\n(.*?)^```", text, re.S | re.M)]
    assert {key for part in parts for key in part} == {"recovery", "seed", "availability", "hosts"}
    least = {"seed": 1, "availability": {"sweeps": {}}}
    for part in parts:
        plan = parse(yaml.safe_dump(least | part))
        written = yaml.safe_load(dump(plan))
        assert all(key in str(written[name]) for name in ("recovery", "hosts") for key in part.get(name, {}))


def test_a_sweep_is_every_combination_once():
    sweep = parse(
        "seed: 1\navailability: {sweeps: {x: {pdps: [1, 2, 2], overlap: [0.1, 0.5]}}}\nresponse_time: {}"
    ).availability.sweeps["x"]
    assert sweep.cells() == [Cell(1, 0.1), Cell(1, 0.5), Cell(2, 0.1), Cell(2, 0.5)]


def test_a_sweep_says_how_often_it_is_run_live_or_as_often_as_all_are():
    text = (
        "seed: 1\navailability: {live_runs: 3, population: {requests: 10}, sweeps:"
        " {a: {pdps: [4], live: true}, b: {pdps: [2], live: 1}, c: {pdps: [3]}}}\nresponse_time: {}"
    )
    plan = parse(text).availability
    assert [plan.live_cells(run) for run in range(4)] == [[Cell(4), Cell(2)], [Cell(4)], [Cell(4)], []]
    assert (plan.rounds, plan.live_requests) == (3, 2 * 10 * 4)


def test_the_pace_is_the_papers_made_faster():
    plan = parse("seed: 1\navailability: {faster: 20, sweeps: {a: {}}}\nresponse_time: {}").availability
    assert plan.interval == 0.003


def test_a_cell_in_two_figures_is_run_once():
    text = (
        "seed: 1\navailability: {sweeps: {a: {pdps: [4], live: true}, b: {pdps: [2, 4]}}}\nresponse_time: {}"
    )
    plan = parse(text).availability
    assert plan.cells() == [Cell(4), Cell(2)]
    assert plan.live_cells() == [Cell(4)]


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ("seed: 1", "seed: one", "`seed` expected `int`"),
        ("pdps: [1, 2]", "pdps: [0]", ">= 1"),
        ("pdps: [1, 2]", "pdps: []", "`availability.sweeps.pdps` has an empty list"),
        ("pdps: [1, 2]", "overlap: [0.333]", "66.6 of 200 objects"),
        ("pdps: [1, 2]", "strategy: [shout]", "shout"),
        ("pdps: [1, 2]", "counted: [from-failure], mttf: [10]", "must be more than `mttr`"),
        ("pdps: [1, 2]", "live: true, cache: [roles]", "without cache only"),
        ("sweeps:", "swoops:", "swoops"),
        ("response_time: {}", "response_time: {windows: 3}", "`response_time.windows` must divide"),
        ("seed: 1", "seed: [", "not YAML: line"),
        ("seed: 1", "", "seed"),
    ],
)
def test_a_bad_plan_is_refused_with_its_place(change, field, words):
    with pytest.raises(InvalidExperiment, match=r"^plan\.yaml: ") as raised:
        parse(LEAST.replace(change, field), "plan.yaml")
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InvalidExperiment, match=r"nowhere\.yaml: cannot be read: No such file"):
        load(tmp_path / "nowhere.yaml")


def test_a_pep_asks_until_the_deadline():
    """At 0, 25, 75, 175, 375 and 775 ms."""
    assert Population(deadline=1.0).attempts == 6
    assert Population(deadline=0.02).attempts == 1
