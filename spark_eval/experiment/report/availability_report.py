"""The availability experiment as sections of a report: every sweep as a plot, with the formula beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise

from spark_eval.experiment.cell import Cache, Cell, Spaces
from spark_eval.experiment.plan import Availability, Sweep
from spark_eval.experiment.points import AvailabilityPoint, Pace, agreement
from spark_eval.reports import Chart, Claim, Mark, Part, Plot, Section, Series, Table, draw
from spark_eval.schemas import LIVE, SIMULATION

FEWER = "fewer failed requests"
FLAT = 0.05
"""A rise that is, by the intervals, at most so much is called none."""
LABELS = {
    "pdps": "number of PDPs",
    "overlap": "overlap of object spaces",
    "mttf": "mean time to failure, in requests",
    "mttr": "mean time to repair",
    "common": "failures in common",
    "strategy": "strategy",
    "cache": "recycling",
    "counted": "time to failure",
    "spaces": "objects in common",
}
TIMES = ("median", "99 %")
_RECYCLING = {Cache.NONE: "no recycling", Cache.PRECISE: "precise", Cache.ROLES: "SAAM-RBAC"}
_FORMULA, _SIMULATION, _LIVE = 6, 1, 2


@dataclass(frozen=True, slots=True)
class Story:
    """What there is to say about a sweep that varies this; what the paper says is about certain constants only."""

    title: str
    text: str
    varies: tuple[str, ...]
    paper: str = ""
    constants: Mapping[str, float] = field(default_factory=dict)

    def fits(self, sweep: Sweep) -> bool:
        """Whether it is told of this sweep, and not of another that happens to have the name."""
        varied = tuple(name for name in LABELS if len(getattr(sweep, name)) > 1)
        held = all(getattr(sweep, name) == (value,) for name, value in self.constants.items())
        return varied == self.varies and held


STORIES = {
    "pdps": Story(
        "Availability against the number of PDPs",
        "Every PDP fails now and then, independently of the others. Point to point, a request fails when the PEP's own"
        " PDP does; with publish/subscribe it fails only when every PDP that serves its object does.",
        ("pdps",),
        "“As we expected, the availability increases with the number of PDPs.” (figure 4 a, overlap 10 %)",
        {"overlap": 0.1, "mttf": 100.0, "mttr": 10.0},
    ),
    "overlap": Story(
        "Availability against the overlap of object spaces",
        "The more of each other's objects PDPs serve, the more of them can stand in for one that fails.",
        ("overlap",),
        "“The availability increases with the overlap rate.” (figure 4 b, four PDPs)",
        {"pdps": 4, "mttf": 100.0, "mttr": 10.0},
    ),
    "readings": Story(
        "The same by every reading of the paper",
        "The paper does not say from where a time to failure counts, nor which objects PDPs have in common. Counted"
        " from"
        " the end of a repair (as everywhere else here) a PDP is down for 10 / 110 = 0.0909 of the time; counted"
        " from the"
        " start of one failure to that of the next, for 10 / 100 = 0.100. With object spaces of their own each"
        " further PDP"
        " helps with other objects; with one common core all help with the same tenth, and nobody with the rest.",
        ("pdps", "counted", "spaces"),
    ),
    "scale": Story(
        "At scale",
        "A small overlap is enough if there are many PDPs: what counts is how many others serve an object on average.",
        ("pdps", "overlap"),
    ),
    "many": Story(
        "64 PDPs, live",
        "As many PDP processes at once on one machine, asked at the same pace. Those that serve an object by"
        " chance, about"
        " one in ten, get the request.",
        (),
    ),
    "repair": Story(
        "Against the times to failure and to repair",
        "Only the ratio of the two times counts, however long the failures are: each curve is the one above, shifted.",
        ("mttf", "mttr"),
    ),
    "common": Story(
        "When failures have a common cause",
        "Some failures strike all PDPs at once: a network, a policy store, a bad release. Here a share of each PDP's"
        " failures is of that kind. It bounds what any number of replicas can achieve.",
        ("pdps", "common"),
    ),
    "correlated": Story(
        "A common cause, live",
        "A share of each PDP's failures strikes all of them at once. Here on PDP processes: in such a failure all of"
        " them ignore what they are asked.",
        ("pdps", "common"),
    ),
    "strategy": Story(
        "Asking all, one, or one and then all",
        "Hedging asks one replica and, if it is late, all of them: it should be as available as flooding, at a fraction"
        " of its cost. A queue asks one at a time and may find a failing one again and again.",
        ("pdps", "strategy"),
    ),
    "hedging": Story(
        "Hedging against flooding, live",
        "What the PEP does by default, beside asking everybody, while PDP processes fail. Asked is what the PDPs were"
        " given, repetitions included.",
        ("pdps", "strategy"),
    ),
    "cache": Story(
        "With a secondary decision point",
        "What was answered before need not be asked again, so it cannot fail. Inference by roles knows more than the"
        " same question does.",
        ("pdps", "cache"),
    ),
}


def story_of(name: str, sweep: Sweep) -> Story:
    """What there is to say about a sweep: only if it is what the name says."""
    known = STORIES.get(name)
    if known is not None and known.fits(sweep):
        return known
    return Story(f"Sweep `{name}`", "As planned in the experiment's file.", ())


def is_of_paper(name: str, sweep: Sweep) -> bool:
    return story_of(name, sweep).paper != ""


def sections(
    plan: Availability, points: Sequence[AvailabilityPoint], paces: Sequence[Pace], of_paper: bool
) -> list[Section]:
    """One section for each sweep of the plan: for those the paper has too, or for the others."""
    found = {(point.source, point.cell): point for point in points}
    times = {pace.cell: pace for pace in paces}
    return [
        _section(name, sweep, found, times)
        for name, sweep in plan.sweeps.items()
        if is_of_paper(name, sweep) is of_paper
    ]


Found = Mapping[tuple[str, Cell], AvailabilityPoint]


def _section(name: str, sweep: Sweep, found: Found, paces: Mapping[Cell, Pace]) -> Section:
    story = story_of(name, sweep)
    x, others = _axes(sweep)
    simulated = [found[SIMULATION, cell] for cell in sweep.cells()]
    # A cell may be live for the sake of another figure.
    live = [found[LIVE, cell] for cell in sweep.cells() if sweep.live and (LIVE, cell) in found]
    parts: list[Part] = [story.text]
    if others:
        parts.append(_plot_series(x, others, simulated, live, sweep))
        if len(sweep.strategy) > 1:
            parts.append(_plot_cost(x, others, simulated, live))
    else:
        parts.append(_plot_single(x, simulated, live, sweep))
    if story.paper:
        parts.append(_claim(story, x, simulated, live))
    parts.append(_table(x, others, [*simulated, *live], paces))
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


def _plot_series(
    x: str,
    others: Sequence[str],
    points: Sequence[AvailabilityPoint],
    live: Sequence[AvailabilityPoint],
    sweep: Sweep,
) -> Plot:
    series = []
    measured = _groups(others, live)
    for number, (label, group) in enumerate(_groups(others, points).items(), 1):
        colour = (number - 1) % 6 + 1
        series.append(Series("", _values(x, group), [p.expected for p in group], (), (), Mark.LINE, colour))
        series.append(_with_interval(label, x, group, Mark.POINTS, colour))
        if label in measured:
            series.append(_with_interval(f"{label}, live", x, measured[label], Mark.SQUARES, colour))
    drawn = (
        "Lines are the formula, points the simulation"
        + (", squares live" if live else "")
        + ", side by side."
    )
    caption = (
        f"Decrease of failed requests against point to point; {_constants(sweep)}."
        f" {drawn} {_intervals(points, live)}"
    )
    return Plot(draw(_chart(x, FEWER, series)), caption)


def _plot_cost(
    x: str, others: Sequence[str], points: Sequence[AvailabilityPoint], live: Sequence[AvailabilityPoint]
) -> Plot:
    series, measured = [], _groups(others, live)
    for number, (label, group) in enumerate(_groups(others, points).items(), 1):
        series.append(
            Series(label, _values(x, group), [p.asked or 0.0 for p in group], (), (), Mark.LINE, number)
        )
        if mine := [point for point in measured.get(label, ()) if point.asked is not None]:
            asked = [point.asked or 0.0 for point in mine]
            series.append(Series(f"{label}, live", _values(x, mine), asked, (), (), Mark.SQUARES, number))
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
            return f"{value} PDP{'s' * (value != 1)}"
        case "overlap":
            return f"overlap {value * 100:.4g} %"
        case "common":
            return f"{value * 100:.4g} % in common"
        case "mttf" | "mttr":
            return f"{name.upper()} {value:g}"
        case "counted":
            return f"u = {cell.unavailability:.3g}"
        case "spaces":
            return "one common core" if value == Spaces.CORE else "independent spaces"
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
        margins = sorted(point.margin for point in live if point.cell.pdps > 1) or [0.0]
        observed += (
            f", and live {sum(point.requests for point in live):,} requests, asked both ways, with intervals of"
            f" {' to '.join(dict.fromkeys(f'± {_margin(each)}' for each in (margins[0], margins[-1])))} points"
        )
    return f"{observed}. Intervals are 95 %, for all points at once."


def _claim(
    story: Story, x: str, simulated: Sequence[AvailabilityPoint], live: Sequence[AvailabilityPoint]
) -> Claim:
    found = [increases(x, points) for points in (simulated, live)]
    agrees = False if False in found else None if None in found else True
    open_ = "" if live else "nothing was run live"
    return Claim(
        story.paper,
        _finding(x, simulated, live),
        agrees,
        verdict={True: "", False: "it does not increase", None: open_}[agrees],
        criterion="from the first point with several PDPs to the last the intervals are apart and ascend, no later"
        " point lies below an earlier one with its interval, and both hold for the simulated points and for the live"
        " ones; it does not increase if a later point lies below an earlier one with its interval, or if the last is,"
        f" by the intervals, at most {FLAT * 100:g} points above the first",
    )


def increases(x: str, points: Sequence[AvailabilityPoint]) -> bool | None:
    """Whether the decrease grows with x, by the points' intervals; None if they are too wide to tell.

    One PDP is what it is compared with: its decrease is 0 by definition, and shows nothing.
    """
    several = [point for point in points if point.cell.pdps > 1]
    if len(several) < 2:
        return None
    ordered = sorted(several, key=lambda point: float(getattr(point.cell, x)))
    bounds = [(point.decrease - point.margin, point.decrease + point.margin) for point in ordered]
    if any(later[1] < earlier[0] for earlier, later in combinations(bounds, 2)):
        return False
    (first_low, first_high), (last_low, last_high) = bounds[0], bounds[-1]
    if last_low > first_high:
        return True
    return False if last_high - first_low <= FLAT else None


def _finding(x: str, simulated: Sequence[AvailabilityPoint], live: Sequence[AvailabilityPoint]) -> str:
    last = simulated[-1]
    at = _described(x, last.cell)
    text = f"{_percent(last.decrease)} fewer failed requests with {at}; the formula says {_percent(last.expected)}"
    if live:
        text += f", live {_percent(live[-1].decrease)} ± {_margin(live[-1].margin)} points"
    text += f". The simulation agrees with the formula at {agreement(simulated)} points"
    if live:
        text += f", the live run at {agreement(live)}"
    return text + "."


def _table(
    x: str, others: Sequence[str], points: Sequence[AvailabilityPoint], paces: Mapping[Cell, Pace]
) -> Table:
    names = [x, *others]
    rows = [
        [
            point.source,
            *(_described(name, point.cell) for name in names),
            _percent(point.failing_p2p),
            _percent(point.failing),
            f"{_percent(point.decrease)} ± {_margin(point.margin)}",
            _percent(point.expected),
            "too wide" if point.agrees is None else point.agrees,
            None if point.asked is None else round(point.asked, 2),
            _time(paces, point, "median"),
            _time(paces, point, "p99"),
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
        "agrees",
        "asked",
        *TIMES,
    ]
    if all(point.source != LIVE for point in points):  # nobody waited
        columns, rows = columns[: -len(TIMES)], [row[: -len(TIMES)] for row in rows]
    return Table(columns, rows, "The figures", folded=True)


def _time(paces: Mapping[Cell, Pace], point: AvailabilityPoint, name: str) -> str | None:
    """How long answers took, if any were measured."""
    pace = paces.get(point.cell) if point.source == LIVE else None
    seconds = None if pace is None else getattr(pace, name)
    return None if seconds is None else f"{seconds * 1000:.1f} ms"


def _margin(margin: float) -> str:
    """Half the width of an interval, in points of percent; what is below a hundredth of one is none."""
    if margin < 5e-5:
        return "0"
    return f"{margin * 100:.0f}" if margin >= 0.1 else f"{margin * 100:.2g}"


def _percent(share: float) -> str:
    return f"{share * 100:.3g} %"
