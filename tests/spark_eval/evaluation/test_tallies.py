"""Few decisions are counted in this process, many on Spark, and both count alike."""

from __future__ import annotations

import numpy as np
import pytest

from spark_eval.entities.population import populate
from spark_eval.evaluation.decisions import Decisions, class_ids
from spark_eval.evaluation.mask_algebra import turn
from spark_eval.evaluation.tallies import count_tiles
from spark_eval.runtime.progress import Steps
from tests.spark_eval.jobs.clinic import Clinic


@pytest.fixture
def decisions(tmp_path, spark):
    """About the clinic's classes of subjects."""
    population = populate(Clinic(tmp_path, spark).inputs())
    plan = population.plan
    people, classes = (each.side.classes(plan) for each in (population.subjects, population.permissions))
    subjects = turn(people.side, len(plan.bits))
    return Decisions(plan, subjects, classes.side, class_ids(plan, classes.side), people.sizes)


def test_few_decisions_need_no_spark_and_are_counted_as_spark_counts_them(decisions, spark):
    def no_spark():
        raise AssertionError("no Spark is needed here")

    here = count_tiles(decisions.bare(), "", no_spark, Steps(None))
    there = count_tiles(decisions.bare(), "", lambda: spark, Steps(None), here=0)
    assert here.sort_by("class").equals(there.sort_by("class"))
    assert np.sum(here.column("allows").to_numpy()) > 0
    assert here.num_rows == decisions.classes.rows
