"""The response-time experiments as sections of a report: one for each factor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from spark_eval.experiment.points import TimePoint, TimeSummary
from spark_eval.experiment.response_service import (
    FILTERS,
    HEDGED,
    KEEPS,
    NOTHING,
    ONE_INBOX,
    PDPS,
    PRECISE,
    RECYCLING,
    SAAM,
    SUBSCRIPTIONS,
    UNSUBSCRIBES,
    UNSUBSCRIBING,
)
from spark_eval.reports import Chart, Claim, Plot, Section, Series, Table, draw

NOTICEABLE = 1.25
"""A ratio of medians from which on we speak of a difference."""


@dataclass(frozen=True, slots=True)
class Story:
    title: str
    text: str
    paper: str


STORIES = {
    SUBSCRIPTIONS: Story(
        "Response time against the PDP's subscriptions",
        "The event service must find who is interested in a request among all subscriptions. The paper's compares it"
        " with one filter after the other, so each of the PDP's filters costs every request something: that is shown by"
        " the variants with filters, which are compared one by one on the way. NATS walks a tree of subject tokens"
        " instead, as many steps as the subject has tokens, however many subscriptions there are.",
        "“The response time almost doubled with a larger number of subscriptions.” (figure 5 a)",
    ),
    UNSUBSCRIBING: Story(
        "Response time against the PEP unsubscribing or not",
        "The paper's PEP subscribes to each response and drops the subscription afterwards, or does not: then there is"
        " one filter more after each request, and all are compared with everything from then on. On NATS a subscription"
        " that nobody drops costs memory, and no time. The PEP of this fabric keeps one subscription for all its"
        " responses and needs neither.",
        "“Using unsubscribe method helps to reduce the response time significantly.” (figure 5 b)",
    ),
    RECYCLING: Story(
        "Response time with and without SAAM",
        "A secondary decision point beside the PEP answers what follows from earlier answers: the same question again,"
        " or by SAAM-RBAC any question of the same role about the same object. It learns as the run goes on.",
        "“SAAM helps to reduce the response time as we expected.” (figure 5 c)",
    ),
    PDPS: Story(
        "Response time against the number of PDPs",
        "All PDPs that serve an object get the request, and the first answer counts. They share one machine here, so"
        " every further PDP takes computing time from the others. Hedging asks one, and the others only if it is late.",
        "“The response time increases with the number of PDPs. … The impact is small.” (figure 5 d)",
    ),
}


def sections(points: Sequence[TimePoint], summaries: Sequence[TimeSummary]) -> list[Section]:
    """One section for each figure."""
    return [
        _section(
            figure, [p for p in points if p.figure == figure], [s for s in summaries if s.figure == figure]
        )
        for figure in STORIES
    ]


def _section(figure: str, points: Sequence[TimePoint], summaries: Sequence[TimeSummary]) -> Section:
    story = STORIES[figure]
    ordered = sorted(summaries, key=lambda summary: order(summary.variant))
    found, agrees = _finding(figure, {summary.variant: summary for summary in ordered})
    caption = (
        f"Median of every {points[0].request:,} requests, one at a time; the variants take turns. Bands are 95 %"
        " intervals of the median."
    )
    return Section(
        story.title,
        [
            story.text,
            Plot(draw(_chart(points, [summary.variant for summary in ordered])), caption),
            Claim(story.paper, found, agrees),
            _table(ordered),
        ],
    )


def order(variant: str) -> tuple[int, int, str]:
    """Variants in the order in which they are told; numbers by their size, and what is hedged last."""
    told = (ONE_INBOX, UNSUBSCRIBES, KEEPS, NOTHING, PRECISE, SAAM)
    name, _, kind = variant.partition(", ")
    if name in told:
        return told.index(name) + len(told) * bool(kind), 0, variant
    number = variant.partition(" ")[0].replace(",", "")
    return 2 * len(told) + variant.endswith((HEDGED, FILTERS)), int(number), variant


def _chart(points: Sequence[TimePoint], variants: Sequence[str]) -> Chart:
    series = []
    for variant in variants:
        mine = [point for point in points if point.variant == variant]
        micros = {name: [1e6 * getattr(point, name) for point in mine] for name in ("median", "low", "high")}
        requests = [point.request for point in mine]
        series.append(Series(variant, requests, micros["median"], micros["low"], micros["high"]))
    return Chart("number of requests", "response time, µs", series)


_Finding: TypeAlias = tuple[str, bool]
"""What was found, and whether it agrees with the paper."""


def _finding(figure: str, by: dict[str, TimeSummary]) -> _Finding:
    finders = {
        "subscriptions": _subscriptions_finding,
        "unsubscribing": _unsubscribing_finding,
        "recycling": _recycling_finding,
    }
    return finders.get(figure, _pdps_finding)(by)


def _subscriptions_finding(by: dict[str, TimeSummary]) -> _Finding:
    few, *_, many = [variant for variant in by if not variant.endswith(FILTERS)]
    ratio, filtered = (
        by[f"{many}{kind}"].median / by[f"{few}{kind}"].median for kind in ("", f", {FILTERS}")
    )
    return (
        f"With filters, {many} take {filtered:.2f} times as long as {few}; on NATS {ratio:.2f} times"
        f" ({_micros(by[many].median)} against {_micros(by[few].median)}).",
        filtered >= NOTICEABLE,
    )


def _unsubscribing_finding(by: dict[str, TimeSummary]) -> _Finding:
    ratio, filtered = (
        by[f"{KEEPS}{kind}"].median / by[f"{UNSUBSCRIBES}{kind}"].median for kind in ("", f", {FILTERS}")
    )
    return (
        f"With filters, a PEP that never unsubscribes waits {filtered:.2f} times as long over the whole run; on"
        f" NATS {ratio:.2f} times ({_micros(by[KEEPS].median)} against {_micros(by[UNSUBSCRIBES].median)}), and"
        f" with one inbox for all {_micros(by[ONE_INBOX].median)}.",
        filtered >= NOTICEABLE,
    )


def _recycling_finding(by: dict[str, TimeSummary]) -> _Finding:
    none, saam = by[NOTHING], by[SAAM]
    return (
        f"The mean falls from {_micros(none.mean)} to {_micros(saam.mean)}: {saam.recycled * 100:.0f} % of the"
        f" answers were inferred, {by[PRECISE].recycled * 100:.0f} % with precise recycling alone.",
        saam.mean < none.mean,
    )


def _pdps_finding(by: dict[str, TimeSummary]) -> _Finding:
    plain = [variant for variant in by if not variant.endswith(HEDGED)]
    one, most = by[plain[0]], by[plain[-1]]
    hedged = next(summary for variant, summary in by.items() if variant.endswith(HEDGED))
    return (
        f"From {plain[0]} to {plain[-1]} on one machine the median grows from {_micros(one.median)} to"
        f" {_micros(most.median)}. Hedging, the way the PEP asks by default, takes {_micros(hedged.median)}.",
        most.median > one.median,
    )


def _table(summaries: Sequence[TimeSummary]) -> Table:
    rows = [
        [
            each.variant,
            each.requests,
            _micros(each.median),
            _micros(each.mean),
            _micros(each.p99),
            f"{each.recycled * 100:.1f} %",
        ]
        for each in summaries
    ]
    return Table(
        ["variant", "requests", "median", "mean", "99 %", "recycled"], rows, "The figures", folded=True
    )


def _micros(seconds: float) -> str:
    return f"{seconds * 1e6:,.0f} µs"
