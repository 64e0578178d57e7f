"""The sections of an experiment's report, from points made up for the purpose."""

from __future__ import annotations

import pytest

from spark_eval.experiment import availability_report, response_report
from spark_eval.experiment.cell import Population
from spark_eval.experiment.formula import decrease
from spark_eval.experiment.plan import Experiment, Part, load, shipped
from spark_eval.experiment.points import AvailabilityPoint, Result, TimePoint, TimeSummary, Twins
from spark_eval.experiment.report import make_report
from spark_eval.experiment.response_service import (
    FILTERS,
    HEDGED,
    KEEPS,
    NOTHING,
    ONE_INBOX,
    PRECISE,
    SAAM,
    UNSUBSCRIBES,
)
from spark_eval.reports.html import Claim, Plot, Table, render

PLAN: Experiment = load(shipped("quick"))
POPULATION = PLAN.availability.population
VARIANTS = {
    "subscriptions": ("100 objects", "1,000 objects", f"100 objects, {FILTERS}", f"1,000 objects, {FILTERS}"),
    "unsubscribing": (ONE_INBOX, UNSUBSCRIBES, KEEPS, f"{UNSUBSCRIBES}, {FILTERS}", f"{KEEPS}, {FILTERS}"),
    "recycling": (NOTHING, PRECISE, SAAM),
    "pdps": ("1 PDP", "8 PDPs", f"8 PDPs, {HEDGED}"),
}


def point(source, cell, off=0.0):
    expected = decrease(cell, POPULATION)
    share = cell.unavailability
    return AvailabilityPoint(
        source, cell, 200, 1_000_000, share * (1 - expected), share, expected + off, 0.01, expected, 0.0, 1.5
    )


def availability(off=0.0):
    plan = PLAN.availability
    simulated = [point("simulation", cell, off) for cell in plan.cells()]
    return [*simulated, *(point("live", cell) for cell in plan.live_cells())]


def summaries(**medians):
    return [
        TimeSummary(figure, variant, 2_000, 0.7 if variant == SAAM else 0.0, median, median, median * 2)
        for figure, variants in VARIANTS.items()
        for variant in variants
        for median in [medians.get(figure, {}).get(variant, 0.001)]
    ]


def curves():
    return [
        TimePoint(figure, variant, request, 0.001, 0.0009, 0.0011, 0.0)
        for figure, variants in VARIANTS.items()
        for variant in variants
        for request in (100, 200)
    ]


def result(**changes):
    fields = {
        "availability": availability(),
        "twins": Twins(20, 20, 100_000),
        "response_time": summaries(),
        "curves": curves(),
    }
    return Result(**{**fields, **changes})


def claims(sections):
    return [part for section in sections for part in section.parts if isinstance(part, Claim)]


def test_the_whole_report_has_the_papers_six_figures_first():
    report = make_report(PLAN, frozenset(Part), result(), "authfabric experiment all")
    titles = [section.title for section in report.sections]
    assert titles[:6] == [
        "Availability against the number of PDPs",
        "Availability against the overlap of object spaces",
        "Response time against the PDP's subscriptions",
        "Response time against the PEP unsubscribing or not",
        "Response time with and without SAAM",
        "Response time against the number of PDPs",
    ]
    assert [bool(claims([section])) for section in report.sections] == [True] * 6 + [False] * 5
    assert all(any(isinstance(part, Plot) for part in section.parts) for section in report.sections)
    assert all(any(isinstance(part, Table) for part in section.parts) for section in report.sections)


def test_the_report_says_what_agrees_and_how_to_repeat_it():
    text = render(make_report(PLAN, frozenset(Part), result(), "authfabric experiment all --quick"))
    for words in (
        "90 of 90",
        "10 of 10",
        "20 of 20",
        "authfabric experiment all --quick",
        "57.6&nbsp;%",
        "Seed 2008",
    ):
        assert words in text


@pytest.mark.parametrize("part", Part)
def test_each_part_has_a_report_of_its_own(part):
    report = make_report(PLAN, frozenset([part]), result(), "command")
    assert len(report.sections) == (7 if part is Part.AVAILABILITY else 4)
    render(report)


def test_points_off_the_formula_are_not_said_to_agree():
    sections = availability_report.sections(PLAN.availability, availability(off=0.02), of_paper=True)
    assert "at 0 of 6 points" in claims(sections)[0].found


@pytest.mark.parametrize(
    ("figure", "place", "slow", "agrees"),
    [
        ("subscriptions", 0, f"1,000 objects, {FILTERS}", True),
        ("subscriptions", 0, f"100 objects, {FILTERS}", False),
        ("subscriptions", 0, "1,000 objects", False),
        ("unsubscribing", 1, f"{KEEPS}, {FILTERS}", True),
        ("unsubscribing", 1, f"{UNSUBSCRIBES}, {FILTERS}", False),
        ("unsubscribing", 1, KEEPS, False),
        ("recycling", 2, NOTHING, True),
        ("recycling", 2, SAAM, False),
        ("pdps", 3, "8 PDPs", True),
        ("pdps", 3, "1 PDP", False),
    ],
)
def test_a_claim_agrees_only_if_the_times_do(figure, place, slow, agrees):
    sections = response_report.sections(curves(), summaries(**{figure: {slow: 0.005}}))
    assert claims(sections)[place].agrees is agrees


def test_variants_are_told_in_their_order():
    told = [variant for variants in VARIANTS.values() for variant in variants]
    for variants in VARIANTS.values():
        assert sorted(variants, key=response_report.order) == list(variants)
    assert len(set(map(response_report.order, told))) == len(told)


def test_a_sweep_that_is_not_the_papers_is_drawn_too():
    import msgspec

    from spark_eval.experiment.plan import Sweep

    sweep = Sweep(pdps=(2, 4), overlap=(0.5, 1.0))
    plan = msgspec.structs.replace(PLAN.availability, population=Population(), sweeps={"mine": sweep})
    (section,) = availability_report.sections(
        plan, [point("simulation", cell) for cell in sweep.cells()], of_paper=False
    )
    assert section.title == "Sweep `mine`"
    assert "overlap 50 %" in next(part for part in section.parts if isinstance(part, Plot)).svg
