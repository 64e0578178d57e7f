"""The sections of an experiment's report, from points made up for the purpose."""

from __future__ import annotations

import msgspec
import pytest

from spark_eval.experiment import variants
from spark_eval.experiment.cell import Cell, Population
from spark_eval.experiment.formula import decrease
from spark_eval.experiment.machine import Load, Machine
from spark_eval.experiment.plan import Experiment, Part, Sweep, load, shipped
from spark_eval.experiment.points import (
    AvailabilityPoint,
    HitRate,
    Pace,
    Ratio,
    Result,
    TimePoint,
    TimeSummary,
    Twins,
    ratio,
)
from spark_eval.experiment.recovery import ALL_PDPS, RecoveryPoint
from spark_eval.experiment.report import availability_report, response_report
from spark_eval.experiment.report.experiment_report import make_report
from spark_eval.experiment.variants import (
    BARE,
    CERTIFICATES,
    CONTENT,
    DIRECT,
    DIRECT_FAR,
    DIRECT_REPLY,
    FAR,
    HEDGED,
    KEEPS,
    NOTHING,
    ONE_INBOX,
    OVER_NATS,
    PRECISE,
    SAAM,
    SECURED,
    UNSUBSCRIBES,
)
from spark_eval.reports.html import Claim, Plot, Table, render

QUICK: Experiment = load(shipped("quick"))
KEPT = ("pdps", "overlap", "hedging")
PLAN = msgspec.structs.replace(
    QUICK,
    availability=msgspec.structs.replace(
        QUICK.availability, sweeps={name: QUICK.availability.sweeps[name] for name in KEPT}
    ),
)
"""The quick plan with a few of its sweeps: drawing takes time."""
POPULATION = PLAN.availability.population
VARIANTS = {
    "subscriptions": (
        "100 objects", "1,000 objects", "10,000 objects",
        f"100 objects, {CONTENT}", f"1,000 objects, {CONTENT}", f"10,000 objects, {CONTENT}",
    ),
    "unsubscribing": (ONE_INBOX, UNSUBSCRIBES, KEEPS, f"{UNSUBSCRIBES}, {CONTENT}", f"{KEEPS}, {CONTENT}"),
    "recycling": (NOTHING, PRECISE, SAAM, CERTIFICATES),
    "pdps": ("1 PDP", "8 PDPs", f"8 PDPs, {HEDGED}"),
    "transport": (DIRECT, OVER_NATS, BARE, DIRECT_REPLY, SECURED, DIRECT_FAR, FAR),
}  # fmt: skip
MACHINE = Machine("A processor", 2, 8.0, "Linux 6", "3.11", {"measuring response times": Load(1.5, 3.25)})


def point(source, cell, off=0.0, margin=0.01):
    expected = decrease(cell, POPULATION)
    share = cell.unavailability
    return AvailabilityPoint(
        source,
        cell,
        200,
        1_000_000,
        share * (1 - expected),
        share,
        expected + off,
        margin,
        expected,
        0.0,
        1.5,
    )


def availability(off=0.0):
    plan = PLAN.availability
    simulated = [point("simulation", cell, off) for cell in plan.cells()]
    return [*simulated, *(point("live", cell) for cell in plan.live_cells())]


def summaries(figure="", **medians):
    return [
        TimeSummary(name, variant, 2_000, 0, 0.7 if variant == SAAM else 0.0, median, median, median * 2)
        for name, compared in VARIANTS.items()
        for variant in compared
        for median in [medians.get(variant, 0.001) if name == figure else 0.001]
    ]


def curves(figure="", **medians):
    """Twenty windows; every value a little off, and not always in the same direction."""
    return [
        TimePoint(name, variant, 100 * (window + 1), value, value * 0.9, value * 1.1, 0.0, value)
        for name, compared in VARIANTS.items()
        for variant in compared
        for window in range(20)
        for median in [medians.get(variant, 0.001) if name == figure else 0.001]
        for value in [median * (1 + 0.01 * (window * len(variant) % 3 - 1))]
    ]


def result(**changes):
    fields = {
        "availability": availability(),
        "twins": Twins(20, 20, 100_000),
        "response_time": summaries(),
        "curves": curves(),
        "paces": [Pace(cell, 1, 0.0042, 0.001, 0.02) for cell in PLAN.availability.live_cells()],
        "machine": MACHINE,
        "recovery": [RecoveryPoint(ALL_PDPS, NOTHING, 20.0, 800, 0, 0, [21.0], [20.9], None)],
    }
    return Result(**{**fields, **changes})


def claims(sections):
    return [part for section in sections for part in section.parts if isinstance(part, Claim)]


@pytest.fixture(scope="module")
def whole():
    return make_report(PLAN, frozenset(Part), result(), "authfabric experiment all --quick")


def test_the_whole_report_has_the_papers_six_figures_first(whole):
    titles = [section.title for section in whole.sections]
    assert titles[:6] == [
        "Availability against the number of PDPs",
        "Availability against the overlap of object spaces",
        "Response time against the PDP's subscriptions",
        "Response time against the PEP unsubscribing or not",
        "Response time with and without SAAM",
        "Response time against the number of PDPs",
    ]
    assert titles[-4:] == [
        "Who is answered while something is away, and until all is as before",
        "The whole chain: which nine is reached with how many",
        "What is assumed",
        "The machine, and how busy it was",
    ]
    drawn = whole.sections[:-4]
    assert all(any(isinstance(part, Plot) for part in section.parts) for section in drawn)
    assert all(any(isinstance(part, Table) for part in section.parts) for section in drawn)


def test_every_claim_states_its_criterion(whole):
    found = claims(whole.sections)
    assert len(found) == 8
    assert all(claim.criterion for claim in found)
    assert render(whole).count("Agrees if ") == 8


def test_the_report_says_what_agrees_and_how_to_repeat_it(whole):
    text = render(whole)
    cells, live = len(PLAN.availability.cells()), len(PLAN.availability.live_cells())
    for words in (
        f"{cells} of {cells}",
        f"{live} of {live}",
        "20 of 20",
        "authfabric experiment all --quick",
        "57.6&nbsp;%",
        "Seed 2008",
        "A processor",
        "3.25",
        "every 60&nbsp;ms",
        "one every 4.2&nbsp;ms",
        "binary decision diagrams",
    ):
        assert words in text, words


def test_no_number_is_out_of_place():
    cells = PLAN.availability.live_cells()
    points = [*availability(), *(point("live", cell, margin=1e-9) for cell in cells if cell.pdps == 1)]
    text = render(make_report(PLAN, frozenset([Part.AVAILABILITY]), result(availability=points), "c"))
    assert "1 PDPs" not in text
    assert "e-0" not in text.partition("<footer>")[0].replace("ne-0", "")
    assert "± 0<" in text


@pytest.mark.parametrize("part", Part)
def test_each_part_has_a_report_of_its_own(part):
    report = make_report(PLAN, frozenset([part]), result(), "command")
    sections = {Part.AVAILABILITY: len(PLAN.availability.sweeps) + 3, Part.RESPONSE_TIME: 6, Part.RECOVERY: 2}
    assert len(report.sections) == sections[part]
    render(report)


def test_points_off_the_formula_are_not_said_to_agree():
    sections = availability_report.sections(PLAN.availability, availability(off=0.02), [], of_paper=True)
    assert "at 0 of 6 points" in claims(sections)[0].found


def turned(points, source):
    """The same points of one source, with their values in the opposite order."""
    mine = [each for each in points if each.source == source]
    values = sorted((each.decrease for each in mine), reverse=True)
    order = sorted(mine, key=lambda each: (each.cell.pdps, each.cell.overlap))
    new = {
        each.cell: msgspec.structs.replace(each, decrease=value)
        for each, value in zip(order, values, strict=True)
    }
    return [new[each.cell] if each.source == source else each for each in points]


@pytest.mark.parametrize("source", ["simulation", "live"])
@pytest.mark.parametrize("place", [0, 1])
def test_availability_that_falls_differs_from_the_paper(source, place):
    """Simulated or live: either could have refuted it."""
    (agrees,) = {
        c.agrees for c in claims(availability_report.sections(PLAN.availability, availability(), [], True))
    }
    assert agrees is True
    planted = turned(availability(), source)
    claim = claims(availability_report.sections(PLAN.availability, planted, [], of_paper=True))[place]
    assert (claim.agrees, claim.verdict) == (False, "it does not increase")


def test_live_points_with_wide_intervals_decide_nothing():
    wide = [
        msgspec.structs.replace(each, margin=0.9) if each.source == "live" else each
        for each in availability()
    ]
    (claim, *_) = claims(availability_report.sections(PLAN.availability, wide, [], of_paper=True))
    assert (claim.agrees, claim.verdict) == (None, "")
    assert "the live run at 0 of 6 (6 with intervals too wide to tell, beyond ± 10 points)" in claim.found


def test_wide_intervals_that_fall_decide_nothing_either():
    """Which of two points is higher is chance where their intervals hold both."""
    planted = [
        msgspec.structs.replace(each, margin=0.9) if each.source == "live" else each
        for each in turned(availability(), "live")
    ]
    (claim, *_) = claims(availability_report.sections(PLAN.availability, planted, [], of_paper=True))
    assert claim.agrees is None


def test_availability_that_stays_the_same_differs_from_the_paper():
    same = [
        msgspec.structs.replace(each, decrease=0.5) if each.source == "live" else each
        for each in availability()
    ]
    (claim, *_) = claims(availability_report.sections(PLAN.availability, same, [], of_paper=True))
    assert (claim.agrees, claim.verdict) == (False, "it does not increase")


def test_the_simulation_alone_decides_nothing():
    """It increases there because the model says so."""
    alone = [each for each in availability() if each.source == "simulation"]
    (claim, *_) = claims(availability_report.sections(PLAN.availability, alone, [], of_paper=True))
    assert (claim.agrees, claim.verdict) == (None, "nothing was run live")


@pytest.mark.parametrize(
    ("off", "margin", "agrees"),
    [(0.0, 0.01, True), (0.02, 0.01, False), (0.0, 0.5, None), (0.6, 0.5, False)],
)
def test_a_point_agrees_with_the_formula_only_by_an_interval_that_could_have_missed_it(off, margin, agrees):
    found = point("live", Cell(pdps=4), off, margin)
    assert found.agrees is agrees
    summary = Result([found])
    assert (summary.differing, summary.untold) == (
        [found] if agrees is False else [],
        [found] if agrees is None else [],
    )


@pytest.mark.parametrize(
    ("figure", "slow", "seconds", "agrees", "verdict"),
    [
        ("subscriptions", "1,000 objects", 0.0019, True, ""),
        ("subscriptions", "1,000 objects", 0.001, False, "flat here"),
        ("subscriptions", "1,000 objects", 0.0012, False, "it grows less"),
        ("subscriptions", "1,000 objects", 0.0039, False, "it grows more"),
        ("subscriptions", f"1,000 objects, {CONTENT}", 0.0019, False, "flat here"),
        ("unsubscribing", KEEPS, 0.002, True, ""),
        ("unsubscribing", KEEPS, 0.001, False, "flat here"),
        ("unsubscribing", f"{KEEPS}, {CONTENT}", 0.005, False, "flat here"),
        ("recycling", SAAM, 0.0002, True, ""),
        ("recycling", SAAM, 0.002, False, "not reduced"),
        ("unsubscribing", KEEPS, 0.0012, False, "it helps less"),
        ("unsubscribing", KEEPS, 0.0005, False, "it does not help significantly"),
        ("subscriptions", "1,000 objects", 0.0005, False, "it falls"),
        ("subscriptions", "10,000 objects", 0.0015, False, "it does not double"),
        ("pdps, growing", "8 PDPs", 0.0011, True, ""),
        ("pdps, growing", "8 PDPs", 0.001, None, ""),
        ("pdps, growing", "8 PDPs", 0.0005, False, "it falls"),
        ("pdps, by little", "8 PDPs", 0.0011, True, ""),
        ("pdps, by little", "8 PDPs", 0.00093, True, ""),
        ("pdps, by little", "8 PDPs", 0.00185, False, "the impact is not small"),
        ("transport", DIRECT_REPLY, 0.0007, True, ""),
        ("transport", DIRECT_REPLY, 0.0013, False, "not reduced"),
    ],
)
def test_a_verdict_follows_from_the_times_alone(figure, slow, seconds, agrees, verdict):
    """For every verdict there is data that would have refuted it."""
    figure, _, which = figure.partition(", ")
    measured = (curves(figure, **{slow: seconds}), summaries(figure, **{slow: seconds}))
    found = found_in(figure, *measured)
    claim = found[["growing", "by little"].index(which) if which else 0]
    assert (claim.agrees, claim.verdict) == (agrees, verdict)
    assert len(found) == 1 + bool(which)


def found_in(figure, points, totals):
    """The claims of one figure."""
    sections = [
        each
        for of_paper in (True, False)
        for each in response_report.sections(points, totals, of_paper=of_paper)
    ]
    return claims([sections[list(VARIANTS).index(figure)]])


CLAIMED = {
    "subscriptions": ("1,000 objects", "100 objects"),
    "unsubscribing": (KEEPS, UNSUBSCRIBES),
    "recycling": (SAAM, NOTHING),
    "pdps": ("8 PDPs", "1 PDP"),
    "transport": (DIRECT_REPLY, BARE),
}
"""Which two variants each figure's claim compares."""


def spread(figure, low, high, variant=""):
    """The same points, but the ratio of the two compared is as often `low` as `high`."""
    changed, to = CLAIMED[figure]
    changed = variant or changed
    base = {p.request: p for p in curves() if (p.figure, p.variant) == (figure, to)}
    points = []
    for each in curves():
        if (each.figure, each.variant) == (figure, changed):
            ratio_ = low if each.request // 100 % 2 else high
            other = base[each.request]
            each = msgspec.structs.replace(each, median=other.median * ratio_, mean=other.mean * ratio_)
        points.append(each)
    return points


@pytest.mark.parametrize("figure", CLAIMED)
def test_a_wide_interval_settles_nothing(figure):
    """From a tenth to ten times as long: whatever is claimed, it may be so or not."""
    for claim in found_in(figure, spread(figure, 0.1, 10.0), summaries()):
        assert (claim.agrees, claim.verdict) == (None, "")


@pytest.mark.parametrize("figure", CLAIMED)
def test_too_few_windows_settle_nothing(figure):
    """Five medians that are all above show it with less than 95 %."""
    for measured in (curves(), curves(figure, **{CLAIMED[figure][0]: 0.1})):
        few = [each for each in measured if each.request <= 500]
        for claim in found_in(figure, few, summaries()):
            assert (claim.agrees, claim.verdict) == (None, "too few windows for an interval")


@pytest.mark.parametrize(
    ("figure", "low", "high", "verdict"),
    [
        ("subscriptions", 0.23, 1.29, "it does not double"),
        ("subscriptions", 0.9, 1.2, "flat here"),
        ("subscriptions", 1.05, 1.2, "it grows less"),
        ("subscriptions", 0.96, 0.98, "flat here"),
        ("subscriptions", 0.85, 0.98, "it falls"),
        ("unsubscribing", 0.23, 1.2, "it does not help significantly"),
        ("unsubscribing", 0.9, 1.2, "flat here"),
        ("unsubscribing", 1.05, 1.2, "it helps less"),
        ("unsubscribing", 1.02, 1.05, "flat here"),
    ],
)
def test_flat_is_what_the_whole_interval_shows(figure, low, high, verdict):
    """The wider the interval, the less it is called flat; and not where it grows by more than a little."""
    (claim,) = found_in(figure, spread(figure, low, high), summaries())
    assert (claim.agrees, claim.verdict) == (False, verdict)


def test_a_small_impact_is_shown_also_where_growth_is_not():
    growing, small = found_in("pdps", spread("pdps", 0.81, 1.17), summaries())
    assert (growing.agrees, small.agrees) == (None, True)
    growing, small = found_in("pdps", spread("pdps", 1.1, 1.4), summaries())
    assert (growing.agrees, small.agrees) == (True, None)


def test_flat_holds_from_the_fewest_subscriptions_to_the_most():
    (claim,) = found_in(
        "subscriptions", spread("subscriptions", 0.5, 1.4, variant="10,000 objects"), summaries()
    )
    assert (claim.agrees, claim.verdict) == (False, "it does not double")


def test_a_ratio_is_the_median_over_windows_with_its_interval():
    points = [
        TimePoint("f", variant, request, value, 0.0, 0.0, 0.0, value)
        for request in range(1, 21)
        for variant, value in (("a", float(request)), ("b", 2.0))
    ]
    assert ratio(points, "a", "b") == Ratio(5.25, 2.5, 8.0)


@pytest.mark.parametrize(
    ("low", "high", "agrees"), [(1.6, 2.4, True), (1.0, 1.4, False), (2.6, 3.0, False), (1.4, 1.6, None)]
)
def test_an_interval_on_a_bound_decides_nothing(low, high, agrees):
    assert Ratio((low + high) / 2, low, high).within(1.5, 2.5) is agrees


def test_numbers_of_subscriptions_that_the_paper_does_not_have_get_no_verdict():
    """Nothing it says is about them."""
    other = [msgspec.structs.replace(each, variant=each.variant.replace("100 ", "7 ")) for each in curves()]
    totals = [
        msgspec.structs.replace(each, variant=each.variant.replace("100 ", "7 ")) for each in summaries()
    ]
    (claim, *_) = claims(response_report.sections(other, totals, of_paper=True))
    assert (claim.agrees, claim.criterion) == (None, "")


def test_variants_are_told_in_their_order():
    told = [variant for compared in VARIANTS.values() for variant in compared]
    for compared in VARIANTS.values():
        assert sorted(compared, key=response_report.order) == list(compared)
    assert len(set(map(response_report.order, told))) == len(told)


def test_counts_have_their_nouns():
    assert (variants.pdps(1), variants.pdps(8, HEDGED)) == ("1 PDP", "8 PDPs, hedged")


def own_plan(name, sweep):
    plan = msgspec.structs.replace(PLAN.availability, population=Population(), sweeps={name: sweep})
    return msgspec.structs.replace(PLAN, availability=plan)


@pytest.mark.parametrize("name", ["mine", "pdps", "scale"])
def test_a_plan_of_ones_own_is_not_titled_by_the_papers(name):
    """Not even if it calls a sweep as the paper's are called here."""
    sweep = Sweep(pdps=(2, 4), overlap=(0.5,), mttf=(30.0,))
    plan = own_plan(name, sweep)
    points = [point("simulation", cell) for cell in sweep.cells()]
    report = make_report(plan, frozenset([Part.AVAILABILITY]), Result(points), "command")
    assert report.sections[0].title == f"Sweep `{name}`"
    assert "Wei" not in render(report)
    assert "publish/subscribe" not in report.title


def test_a_sweep_of_two_factors_is_drawn_as_several_series():
    sweep = Sweep(pdps=(2, 4), overlap=(0.5, 1.0))
    points = [point("simulation", cell) for cell in sweep.cells()]
    (section,) = availability_report.sections(
        own_plan("mine", sweep).availability, points, [], of_paper=False
    )
    assert "overlap 50 %" in next(part for part in section.parts if isinstance(part, Plot)).svg


def test_a_single_point_is_drawn():
    sweep = Sweep(pdps=(64,), overlap=(0.1,))
    points = [point(source, cell) for cell in sweep.cells() for source in ("simulation", "live")]
    (section,) = availability_report.sections(
        own_plan("many", sweep).availability, points, [], of_paper=False
    )
    svg = next(part for part in section.parts if isinstance(part, Plot)).svg
    assert svg.count("<use") >= 3  # formula, simulation and live run


def test_what_is_printed_of_a_cell_counts_pdps():
    assert str(Cell(1)).startswith("1 PDP, ")


@pytest.mark.parametrize(
    ("hits", "agrees"), [(1_500, True), (1_400, None), (1_100, False)], ids=["more", "as many", "fewer"]
)
def test_how_much_saam_answers_stands_beside_its_paper(hits, agrees):
    rates = [
        HitRate("anything", way, learned, hits if (way, learned) == (SAAM, 0.1) else 100, 2_000)
        for way in (PRECISE, SAAM)
        for learned in (0.01, 0.1)
    ]
    section = response_report.hit_rates(rates)
    [claim] = claims([section])
    assert claim.agrees is agrees
    assert f"{hits / 20:.3g} %" in claim.found
    assert len([part for part in section.parts if isinstance(part, Plot)]) == 1
    assert section.title in [
        each.title for each in make_report(PLAN, set(Part), result(hit_rates=rates), "").sections
    ]


def test_one_pdp_which_decreases_nothing_by_definition_decides_no_verdict():
    def found(pdps, decrease, margin):
        return msgspec.structs.replace(point("live", Cell(pdps=pdps)), decrease=decrease, margin=margin)

    wide = [found(1, 0.0, 0.0), found(2, 0.05, 0.5), found(10, 0.6, 0.5)]
    assert availability_report.increases("pdps", wide) is None
    assert availability_report.increases("pdps", wide[::2]) is None
    narrow = [found(1, 0.0, 0.0), found(2, 0.05, 0.01), found(10, 0.6, 0.01)]
    assert availability_report.increases("pdps", narrow) is True
