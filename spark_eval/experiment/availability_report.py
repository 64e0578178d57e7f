"""The availability experiment as sections of a report: every sweep as a plot, with the formula beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from spark_eval.experiment.cell import Cache, Cell
from spark_eval.experiment.plan import Availability, Sweep
from spark_eval.experiment.points import AvailabilityPoint
from spark_eval.reports import Chart, Claim, Mark, Part, Plot, Section, Series, Table, draw
from spark_eval.schemas import LIVE, SIMULATION

FEWER = "fewer failed requests"
LABELS = {
    "pdps": "number of PDPs",
    "overlap": "overlap of object spaces",
    "mttf": "mean time to failure, in requests",
    "mttr": "mean time to repair",
    "common": "failures in common",
    "strategy": "strategy",
    "cache": "recycling",
}
_RECYCLING = {Cache.NONE: "no recycling", Cache.PRECISE: "precise", Cache.ROLES: "SAAM-RBAC"}
_FORMULA, _SIMULATION, _LIVE = 6, 1, 2


@dataclass(frozen=True, slots=True)
class Story:
    """What there is to say about a sweep: its title, what it is about, and what the paper says."""

    title: str
    text: str
    paper: str = ""


STORIES = {
    "pdps": Story(
        "Availability against the number of PDPs",
        "Every PDP fails now and then, independently of the others. Point to point, a request fails when the PEP's own"
        " PDP does; with publish/subscribe it fails only when every PDP that serves its object does.",
        "“As we expected, the availability increases with the number of PDPs.” (figure 4 a, overlap 10 %)",
    ),
    "overlap": Story(
        "Availability against the overlap of object spaces",
        "The more of each other's objects PDPs serve, the more of them can stand in for one that fails.",
        "“The availability increases with the overlap rate.” (figure 4 b, four PDPs)",
    ),
    "scale": Story(
        "At scale: up to 64 PDPs",
        "A small overlap is enough if there are many PDPs: what counts is how many others serve an object on average.",
    ),
    "repair": Story(
        "Against the times to failure and to repair",
        "Only the ratio of the two times counts, however long the failures are: each curve is the one above, shifted.",
    ),
    "common": Story(
        "When failures have a common cause",
        "Some failures strike all PDPs at once: a network, a policy store, a bad release. Here a share of each PDP's"
        " failures is of that kind. It bounds what any number of replicas can achieve.",
    ),
    "strategy": Story(
        "Asking all, one, or one and then all",
        "Hedging asks one replica and, if it is late, all of them: as available as flooding, at a fraction of its"
        " cost. A queue asks one at a time and may find a failing one again and again.",
    ),
    "cache": Story(
        "With a secondary decision point",
        "What was answered before need not be asked again, so it cannot fail. Inference by roles knows more than the"
        " same question does.",
    ),
}


def sections(plan: Availability, points: Sequence[AvailabilityPoint], of_paper: bool) -> list[Section]:
    """One section for each sweep of the plan: for those the paper has too, or for the others."""
    found = {(point.source, point.cell): point for point in points}
    return [
        _section(name, sweep, found)
        for name, sweep in plan.sweeps.items()
        if (name in STORIES and STORIES[name].paper != "") is of_paper
    ]


Found = Mapping[tuple[str, Cell], AvailabilityPoint]


def _section(name: str, sweep: Sweep, found: Found) -> Section:
    story = STORIES.get(name, Story(f"Sweep `{name}`", "As planned in the experiment's file."))
    x, others = _axes(sweep)
    simulated = [found[SIMULATION, cell] for cell in sweep.cells()]
    live = [found[LIVE, cell] for cell in sweep.cells() if (LIVE, cell) in found]
    parts: list[Part] = [story.text]
    if others:
        parts.append(_plot_series(x, others, simulated, sweep))
        if name == "strategy":
            parts.append(_plot_cost(x, others, simulated))
    else:
        parts.append(_plot_single(x, simulated, live, sweep))
    if story.paper:
        parts.append(Claim(story.paper, _finding(x, simulated, live), _grows(x, simulated)))
    parts.append(_table(x, others, [*simulated, *live]))
    return Section(story.title, parts)


def _axes(sweep: Sweep) -> tuple[str, list[str]]:
    """What varies: the first goes to the right, the others tell the series apart."""
    varied = [name for name in LABELS if len(getattr(sweep, name)) > 1]
    return (varied or ["pdps"])[0], varied[1:]


def _plot_single(
    x: str, simulated: Sequence[AvailabilityPoint], live: Sequence[AvailabilityPoint], sweep: Sweep
) -> Plot:
    expected = [point.expected for point in simulated]
    series = [
        _with_interval("simulation", x, simulated, Mark.LINE, _SIMULATION),
        Series("formula", _values(x, simulated), expected, (), (), Mark.DASHES, _FORMULA),
    ]
    if live:
        series.append(_with_interval("live on NATS", x, live, Mark.POINTS, _LIVE))
    caption = f"Decrease of failed requests against point to point; {_constants(sweep)}. {_intervals(simulated, live)}"
    return Plot(draw(_chart(x, FEWER, series)), caption)


def _plot_series(x: str, others: Sequence[str], points: Sequence[AvailabilityPoint], sweep: Sweep) -> Plot:
    series = []
    for number, (label, group) in enumerate(_groups(others, points).items(), 1):
        colour = (number - 1) % 6 + 1
        series.append(Series("", _values(x, group), [p.expected for p in group], (), (), Mark.LINE, colour))
        series.append(_with_interval(label, x, group, Mark.POINTS, colour))
    caption = (
        f"Decrease of failed requests against point to point; {_constants(sweep)}."
        f" Lines are the formula, points the simulation. {_intervals(points, ())}"
    )
    return Plot(draw(_chart(x, FEWER, series)), caption)


def _plot_cost(x: str, others: Sequence[str], points: Sequence[AvailabilityPoint]) -> Plot:
    series = [
        Series(label, _values(x, group), [p.asked or 0.0 for p in group])
        for label, group in _groups(others, points).items()
    ]
    chart = _chart(x, "replicas asked for each request", series, percent=False)
    return Plot(draw(chart), "What it costs: replicas that get each request, repetitions included.")


def _chart(x: str, y: str, series: Sequence[Series], percent: bool = True) -> Chart:
    ticks = sorted({value for each in series for value in each.x})
    shares = x in ("overlap", "common")
    doubling = ticks[0] > 0 and all(other >= 2 * one for one, other in pairwise(ticks))
    return Chart(LABELS[x], y, series, percent, shares, log_x=doubling and not shares, ticks=ticks)


def _with_interval(name: str, x: str, points: Sequence[AvailabilityPoint], mark: Mark, colour: int) -> Series:
    low = [max(point.decrease - point.margin, 0.0) for point in points]
    high = [min(point.decrease + point.margin, 1.0) for point in points]
    return Series(name, _values(x, points), [point.decrease for point in points], low, high, mark, colour)


def _values(x: str, points: Sequence[AvailabilityPoint]) -> list[float]:
    return [float(getattr(point.cell, x)) for point in points]


def _groups(others: Sequence[str], points: Sequence[AvailabilityPoint]) -> dict[str, list[AvailabilityPoint]]:
    groups: dict[str, list[AvailabilityPoint]] = {}
    for point in points:
        groups.setdefault(", ".join(_described(name, point.cell) for name in others), []).append(point)
    return groups


def _described(name: str, cell: Cell) -> str:
    value = getattr(cell, name)
    match name:
        case "pdps":
            return f"{value} PDPs"
        case "overlap":
            return f"overlap {value * 100:.4g} %"
        case "common":
            return f"{value * 100:.4g} % in common"
        case "mttf" | "mttr":
            return f"{name.upper()} {value:g}"
        case "cache":
            return _RECYCLING[value]
        case _:
            return str(value)


def _constants(sweep: Sweep) -> str:
    """What does not vary, where it matters."""
    cell = sweep.cells()[0]
    fixed = [name for name in ("pdps", "overlap", "mttf", "mttr") if len(getattr(sweep, name)) == 1]
    return ", ".join(_described(name, cell) for name in fixed)


def _intervals(simulated: Sequence[AvailabilityPoint], live: Sequence[AvailabilityPoint]) -> str:
    runs = simulated[0].observations
    observed = f"{runs:,} simulated runs of {simulated[0].requests // runs:,} requests for each point"
    if live:
        observed += f", and live {sum(point.requests for point in live):,} requests, asked both ways"
    return f"{observed}. Intervals are 95 %, for all points at once."


def _finding(x: str, simulated: Sequence[AvailabilityPoint], live: Sequence[AvailabilityPoint]) -> str:
    last = simulated[-1]
    at = _described(x, last.cell)
    text = f"{_percent(last.decrease)} fewer failed requests with {at}; the formula says {_percent(last.expected)}."
    agreeing = sum(point.agrees for point in simulated)
    text += f" The simulation agrees with the formula at {agreeing} of {len(simulated)} points"
    if live:
        text += f", the live run at {sum(point.agrees for point in live)} of {len(live)}"
    return text + "."


def _grows(x: str, points: Sequence[AvailabilityPoint]) -> bool:
    ordered = sorted(points, key=lambda point: float(getattr(point.cell, x)))
    return all(one.decrease <= other.decrease for one, other in pairwise(ordered))


def _table(x: str, others: Sequence[str], points: Sequence[AvailabilityPoint]) -> Table:
    names = [x, *others]
    rows = [
        [
            point.source,
            *(_described(name, point.cell) for name in names),
            _percent(point.failing_p2p),
            _percent(point.failing),
            f"{_percent(point.decrease)} ± {point.margin * 100:.2g}",
            _percent(point.expected),
            point.agrees,
        ]
        for point in points
    ]
    columns = [
        "source",
        *(LABELS[name] for name in names),
        "point to point fails",
        "pub/sub fails",
        "fewer",
        "formula",
    ]
    return Table([*columns, "agrees"], rows, "The figures", folded=True)


def _percent(share: float) -> str:
    return f"{share * 100:.3g} %"
