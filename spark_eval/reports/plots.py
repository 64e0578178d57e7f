"""Plots as SVG text, for reports: lines with bands, points with intervals, and bars.

Colours are written as CSS variables, so that a plot follows the page it stands in, light or dark. The same
values always give the same text.
"""

from __future__ import annotations

import enum
import html
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

INK, FAINT, PAPER = "#010101", "#020202", "#030303"
SERIES = ("#110001", "#110002", "#110003", "#110004", "#110005", "#110006")
"""Colours that stand for the page's variables; a reader never sees them."""

_VARIABLES = {
    INK: "var(--ink)",
    FAINT: "var(--faint)",
    PAPER: "var(--paper)",
    **{colour: f"var(--series-{number})" for number, colour in enumerate(SERIES, 1)},
}
_STYLE = Path(__file__).with_name("plots.mplstyle")
HIDDEN = "_nolegend_"
_SIZE = (7.2, 3.6)
ROW, MARK = 79, 6
"""Characters in a row of a legend, and those that the mark before each name takes."""
ASIDE = 0.012
"""By which share of the axis points at the same place are moved apart."""
LABEL = 48
"""Characters of a bar's name that are shown."""
_DECLARATIONS = re.compile(r"\A.*?(?=<svg)", re.DOTALL)
_METADATA = re.compile(r"\s*<metadata>.*?</metadata>", re.DOTALL)
_NAMES = re.compile(r'(?<=<g) id="[^"]*"')
_FAMILY = re.compile(r"font-family: [^;\"]+; ?")
_STYLES = re.compile(r"\s*<defs>\s*<style.*?</style>\s*</defs>", re.DOTALL)


class Mark(enum.StrEnum):
    """How a series is drawn: what is computed as a line, what is measured as points."""

    LINE = "line"
    DASHES = "dashes"
    POINTS = "points"
    SQUARES = "squares"


@dataclass(frozen=True, slots=True)
class Series:
    """Values over x, with the bounds of their intervals if they have any. Without a name it is not in the legend."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    mark: Mark = Mark.LINE
    colour: int = 0
    """Which of the six colours, from 1; 0 takes the next."""


@dataclass(frozen=True, slots=True)
class Chart:
    """What the axes say. `percent` prints fractions as percentages; `ticks` are the places to label on x."""

    x: str
    y: str
    series: Sequence[Series] = field(default_factory=tuple)
    percent: bool = False
    percent_x: bool = False
    log_x: bool = False
    ticks: Sequence[float] = ()
    top: float | None = None


def draw(chart: Chart) -> str:
    """The chart as an SVG element."""
    with mpl.rc_context(fname=_STYLE):
        figure = Figure(figsize=_SIZE, layout="constrained")
        axes = figure.add_subplot()
        for number, series in enumerate(_side_by_side(chart)):
            _draw_series(axes, series, SERIES[((series.colour or number + 1) - 1) % len(SERIES)])
        _draw_axes(axes, chart)
        return _svg(figure, f"{chart.y} over {chart.x}")


def bars(
    labels: Sequence[str], left: Sequence[float], right: Sequence[float], x: str, sides: tuple[str, str]
) -> str:
    """Bars to both sides of zero, one pair for each label, from the top: what is lost, and what is gained."""
    with mpl.rc_context({"axes.grid.axis": "x"}, fname=_STYLE):
        figure = Figure(figsize=(_SIZE[0], 0.9 + 0.3 * len(labels)), layout="constrained")
        axes = figure.add_subplot()
        places = range(len(labels))
        axes.barh(places, [-value for value in left], color=SERIES[1], height=0.65, label=sides[0])
        axes.barh(places, right, color=SERIES[0], height=0.65, label=sides[1])
        axes.axvline(0, color=INK, linewidth=0.8)
        axes.set_yticks(list(places), [_shortened(label) for label in labels])
        axes.invert_yaxis()
        axes.set_xlabel(x)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, place: _number(abs(value), place)))
        _legend(axes, 2)
        return _svg(figure, x)


def _side_by_side(chart: Chart) -> Sequence[Series]:
    """Points that several series have at the same place, moved apart so that none hides another."""
    measured = [each for each in chart.series if each.mark in (Mark.POINTS, Mark.SQUARES)]
    places = [value for each in chart.series for value in each.x]
    if len(measured) < 2 or len(set(places)) < 2:
        return chart.series
    least, most = min(places), max(places)

    def moved(value: float, number: int) -> float:
        share = ASIDE * (number - (len(measured) - 1) / 2)
        return value * (most / least) ** share if chart.log_x else value + (most - least) * share

    return [
        replace(each, x=[moved(value, measured.index(each)) for value in each.x])
        if each in measured
        else each
        for each in chart.series
    ]


def _draw_series(axes: Axes, series: Series, colour: str) -> None:
    if series.mark in (Mark.POINTS, Mark.SQUARES):
        bounds, shape = None, "o" if series.mark is Mark.POINTS else "s"
        if series.low:
            bounds = [
                [value - low for value, low in zip(series.y, series.low, strict=True)],
                [high - value for value, high in zip(series.y, series.high, strict=True)],
            ]
        axes.errorbar(
            series.x, series.y, yerr=bounds, fmt=shape, color=colour, markersize=5.5, capsize=3.5, elinewidth=1.3,
            markeredgecolor=PAPER, markeredgewidth=0.8, label=series.name or HIDDEN, zorder=3,
            clip_on=False,  # a point on the edge is drawn whole
        )  # fmt: skip
        return
    single = len(series.x) == 1
    style = "--" if series.mark is Mark.DASHES else "-"
    if single:  # a line of one point would not be seen
        style = "D" if series.mark is Mark.DASHES else "o"
    axes.plot(
        series.x, series.y, style, color=colour, linewidth=1.7, label=series.name or HIDDEN,
        clip_on=not single,
    )  # fmt: skip
    if series.low:
        axes.fill_between(series.x, series.low, series.high, color=colour, alpha=0.16, linewidth=0)


def _draw_axes(axes: Axes, chart: Chart) -> None:
    if chart.log_x:
        axes.set_xscale("log")
        axes.minorticks_off()
    if chart.ticks:
        axes.set_xticks(list(chart.ticks))
    if chart.ticks or not chart.log_x:
        axes.xaxis.set_major_formatter(FuncFormatter(_percent if chart.percent_x else _number))
    axes.yaxis.set_major_formatter(FuncFormatter(_percent if chart.percent else _number))
    axes.yaxis.set_major_locator(MaxNLocator(6))
    axes.set_ylim(bottom=0, top=chart.top)
    axes.set_xlabel(chart.x)
    axes.set_ylabel(chart.y)
    names = [series.name for series in chart.series if series.name]
    if len(names) > 1:
        # As many in a row as fit, or the legend would push the plot aside.
        _legend(axes, max(1, min(len(names), ROW // (max(map(len, names)) + MARK))))


def _legend(axes: Axes, columns: int) -> None:
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=columns, borderaxespad=0.3, handlelength=1.6)


def _shortened(label: str) -> str:
    return label if len(label) <= LABEL else label[: LABEL - 1] + "…"


def _percent(value: float, _: int) -> str:
    return f"{value * 100:.4g} %"


def _number(value: float, _: int) -> str:
    return f"{value:,.9g}"


def _svg(figure: Figure, label: str) -> str:
    FigureCanvasSVG(figure)
    with io.StringIO() as text:
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
        drawn = text.getvalue()
    # Names would occur twice on a page, a style sheet would reach beyond the plot, and the font is the page's.
    for unwanted in (_DECLARATIONS, _METADATA, _STYLES, _NAMES, _FAMILY):
        drawn = unwanted.sub("", drawn)
    for colour, variable in _VARIABLES.items():
        drawn = drawn.replace(colour, variable)
    return drawn.replace("<svg ", f'<svg role="img" aria-label="{html.escape(label)}" ', 1).strip()
