"""Reports as one HTML file, and plots as SVG."""

from spark_eval.reports.html import Claim, Part, Plot, Report, Section, Table, render
from spark_eval.reports.plots import Chart, Mark, Series, bars, draw

__all__ = [
    "Chart", "Claim", "Mark", "Part", "Plot", "Report", "Section", "Series", "Table", "bars", "draw",
    "render",
]  # fmt: skip
