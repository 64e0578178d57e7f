"""The response-time experiments as sections of a report: one for each factor, with verdicts and what they rest on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from spark_eval.experiment import variants as v
from spark_eval.experiment.points import HitRate, Ratio, TimePoint, TimeSummary, ratio
from spark_eval.reports import Chart, Claim, Mark, Part, Plot, Section, Series, Table, draw

COLOURS = 6
BANDS = 5
"""Up to how many variants intervals are drawn: more would hide the curves."""
HEADROOM = 1.5
"""How far above the highest median a plot reaches: single bands may reach further."""
NOTICEABLE = 1.25
"""A ratio up to which a difference is called small, and from which on significant."""
HARDLY = 1.1
"""A ratio up to which nothing has changed to speak of."""
_FLAT = (
    f"lie{{plural}} between {1 / HARDLY:.2f} and {HARDLY}, or hold{{plural}} 1 and lie{{plural}} between"
    f" {1 / NOTICEABLE:g} and {NOTICEABLE}"
)
DOUBLED = (1.5, 2.5)
"""What counts as almost doubled."""
TENTH, SAAM_RATE = 0.1, 0.7
"""What the SAAM paper says is answered, with so many of the answers cached."""


@dataclass(frozen=True, slots=True)
class Story:
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Figure:
    """What was measured for one figure."""

    points: Sequence[TimePoint]
    by: dict[str, TimeSummary]

    def ratio(self, variant: str, to: str, measure: str = "median") -> Ratio:
        return ratio(self.points, variant, to, measure)


STORIES = {
    v.SUBSCRIPTIONS: Story(
        "Response time against the PDP's subscriptions",
        "The event service must find who is interested in a request among all subscriptions. The paper's, Siena,"
        " matches by binary decision diagrams (its section 3.2), and got slower with more of them. NATS walks a tree of"
        " subject tokens, as many steps as the subject has tokens, however many subscriptions there are. For a"
        " comparison by content, the matcher of this fabric's brokers runs in a process of its own, between PEP and PDP"
        " as Siena did: it looks filters up in an index over their comparisons. All variants ask in the same way: the"
        " PEP subscribes to the response, publishes on the object's own subject, and unsubscribes.",
    ),
    v.UNSUBSCRIBING: Story(
        "Response time against the PEP unsubscribing or not",
        "The paper's PEP subscribes to each response and drops the subscription afterwards, or does not: then there is"
        " one more after each request. A subscription that nobody drops costs memory; it need not cost time where an"
        " index finds the few that match, as on NATS and in the content-based event service. The PEP of this fabric"
        " keeps one subscription for all its responses and needs neither.",
    ),
    v.RECYCLING: Story(
        "Response time with and without SAAM",
        "The fabric as it is shipped: `pdp serve` follows a signed release of OASIS rules, the PEP believes only"
        " whom the"
        " trusted key empowered, and recycles under its lease. It answers by itself what follows from earlier answers:"
        " the same question again (precise), by SAAM-RBAC what a role's other questions settle, or by the certificates"
        " that PDPs send along. It learns as the run goes on.",
    ),
    v.PDPS: Story(
        "Response time against the number of PDPs",
        "All PDPs that serve an object get the request, and the first answer counts. They share one machine here, so"
        " every further PDP takes computing time from the others. Hedging asks one, and the others only if it is late.",
    ),
    v.TRANSPORT: Story(
        "Response time against the way between PEP and PDP",
        "What the event service costs: the same engine asked point to point over one TCP connection, and over NATS by"
        " this fabric's PEP. Then what the paper left for later: replies that bypass the event service (asked over"
        " NATS,"
        " answered over TCP, beside the same bare PEP answered over NATS), security switched on (TLS, credentials"
        " checked"
        " by the access control service, and answers authenticated), and PDPs on other hosts: those that the plan"
        " names, started over SSH, or else network namespaces of this machine, each behind a virtual link.",
    ),
}


def sections(points: Sequence[TimePoint], summaries: Sequence[TimeSummary], of_paper: bool) -> list[Section]:
    """One section for each figure: the paper's, or what lies beyond."""
    return [
        _section(
            name,
            Figure(
                [p for p in points if p.figure == name],
                {s.variant: s for s in sorted(summaries, key=lambda s: order(s.variant)) if s.figure == name},
            ),
        )
        for name in STORIES
        if (name != v.TRANSPORT) is of_paper and any(s.figure == name for s in summaries)
    ]


def _section(name: str, figure: Figure) -> Section:
    story = STORIES[name]
    caption = (
        f"Median of every {figure.points[0].request:,} requests, one at a time; the variants take turns."
    )
    if len(figure.by) <= BANDS:
        caption += " Bands are 95 % intervals of the median."
    plot = Plot(draw(_chart(figure.points, list(figure.by))), caption)
    return Section(story.title, [story.text, plot, *CLAIMS[name](figure), _table(list(figure.by.values()))])


def order(variant: str) -> tuple[int, int, str]:
    """Variants in the order in which they are told; numbers by their size, and what is hedged or filtered last."""
    told = (
        v.ONE_INBOX, v.UNSUBSCRIBES, v.KEEPS, v.NOTHING, v.PRECISE, v.SAAM, v.CERTIFICATES,
        v.DIRECT, v.OVER_NATS, v.BARE, v.DIRECT_REPLY, v.SECURED, v.DIRECT_FAR, v.FAR, v.SPREAD,
    )  # fmt: skip
    if variant in told:
        return told.index(variant), 0, variant
    name, _, kind = variant.partition(", ")
    if name in told:
        return told.index(name) + len(told), 0, variant
    number = variant.partition(" ")[0].replace(",", "")
    return 2 * len(told) + bool(kind and not kind[0].isdigit()), int(number), variant


def _chart(points: Sequence[TimePoint], compared: Sequence[str]) -> Chart:
    series = []
    plain = [variant for variant in compared if v.CONTENT not in variant]
    for variant in compared:
        place = plain.index(variant.removesuffix(f", {v.CONTENT}"))
        mark = Mark.DASHES if variant not in plain or place >= COLOURS else Mark.LINE
        mine = [point for point in points if point.variant == variant]
        micros = {name: [1e6 * getattr(point, name) for point in mine] for name in ("median", "low", "high")}
        requests = [point.request for point in mine]
        colour = place % COLOURS + 1
        low, high = (micros["low"], micros["high"]) if len(compared) <= BANDS else ([], [])
        series.append(Series(variant, requests, micros["median"], low, high, mark, colour))
    top = HEADROOM * max(value for each in series for value in each.y)
    return Chart("number of requests", "response time, µs", series, top=top)


def _subscriptions(figure: Figure) -> list[Claim]:
    """On NATS, from 100 to 1,000 as in the paper; and to the most, by content too."""
    counts = sorted(int(name.split()[0].replace(",", "")) for name in figure.by if v.CONTENT not in name)
    few, more, most = v.objects(counts[0]), v.objects(counts[1]), v.objects(counts[-1])
    found = figure.ratio(more, few)
    words = [f"On NATS, {more} take {found} as long as {few}"]
    if most != more:
        words.append(f", {most} {figure.ratio(most, few)}")
    content = figure.ratio(v.objects(counts[-1], v.CONTENT), v.objects(counts[0], v.CONTENT))
    words.append(f". Content-based, {most} take {content} as long as {few}.")
    if counts[:2] != [100, 1_000]:
        return [Claim("No claim of the paper is about these numbers.", "".join(words))]
    agrees = found.within(*DOUBLED)
    verdict = _open(found)
    if agrees is False:
        flat = _is_flat(found) and _is_flat(figure.ratio(most, few))
        verdict = "it grows more" if found.low > DOUBLED[1] else "flat here" if flat else _less(found)
    return [
        Claim(
            "“The response time almost doubled with a larger number of subscriptions.” (figure 5 a)",
            "".join(words),
            agrees,
            verdict=verdict,
            criterion=f"from 100 to 1,000 subscriptions, on NATS, the ratio of the medians with its interval lies"
            f" between {DOUBLED[0]} and {DOUBLED[1]}; below, it is called flat if that interval and the one from the"
            f" fewest to the most subscriptions {_FLAT.format(plural='')}",
        )
    ]


def _is_flat(found: Ratio) -> bool:
    """Whether nothing noticeable changed, by the whole interval: the wider it is, the less it can show that."""
    if found.within(1 / HARDLY, HARDLY) is True:
        return True
    return found.within(1 / NOTICEABLE, NOTICEABLE) is True and found.low <= 1 <= found.high


def _less(found: Ratio) -> str:
    """How something falls short of the growth that was claimed."""
    return "it grows less" if found.low > 1 else "it falls" if found.high < 1 else "it does not double"


def _open(found: Ratio) -> str:
    """Why a verdict is open, if it is not the width of the interval."""
    return "too few windows for an interval" if found.is_open else ""


def _unsubscribing(figure: Figure) -> list[Claim]:
    found = figure.ratio(v.KEEPS, v.UNSUBSCRIBES)
    content = figure.ratio(f"{v.KEEPS}, {v.CONTENT}", f"{v.UNSUBSCRIBES}, {v.CONTENT}")
    agrees = found.within(NOTICEABLE, inf)
    verdict = _open(found)
    if agrees is False:
        if _is_flat(found):
            verdict = "flat here"
        else:
            verdict = "it helps less" if found.low > 1 else "it does not help significantly"
    return [
        Claim(
            "“Using unsubscribe method helps to reduce the response time significantly.” (figure 5 b)",
            f"On NATS, a PEP that never unsubscribes waits {found} as long as one that does; content-based {content}."
            f" With one inbox for all the median is {_micros(figure.by[v.ONE_INBOX].median)}.",
            agrees,
            verdict=verdict,
            criterion=f"on NATS, never to unsubscribe takes at least {NOTICEABLE} times as long, with the whole"
            f" interval; below, it is called flat if the interval {_FLAT.format(plural='s')}",
        )
    ]


def _recycling(figure: Figure) -> list[Claim]:
    none, saam = figure.by[v.NOTHING], figure.by[v.SAAM]
    found = figure.ratio(v.SAAM, v.NOTHING, "mean")
    rates = ", ".join(
        f"{figure.by[name].recycled * 100:.0f} % {words}"
        for name, words in ((v.PRECISE, "by precise recycling"), (v.CERTIFICATES, "by certificates"))
        if name in figure.by
    )
    agrees = found.within(0.0, 1.0)
    return [
        Claim(
            "“SAAM helps to reduce the response time as we expected.” (figure 5 c)",
            f"The mean with SAAM-RBAC is {found} that without ({_micros(saam.mean)} against {_micros(none.mean)}"
            " over the"
            f" whole run). {saam.recycled * 100:.0f} % of the answers were inferred by SAAM-RBAC, {rates}.",
            agrees,
            verdict="not reduced" if agrees is False else _open(found),
            criterion="the mean with SAAM-RBAC is below the mean without, with the whole interval of their ratio",
        )
    ]


def _pdps(figure: Figure) -> list[Claim]:
    """Whether it grows, and whether by little: two claims, since data may settle one and not the other."""
    plain = [variant for variant in figure.by if not variant.endswith(v.HEDGED)]
    one, most = plain[0], plain[-1]
    hedged = next(summary for variant, summary in figure.by.items() if variant.endswith(v.HEDGED))
    found = figure.ratio(most, one)
    grows, is_small = found.within(1.0, inf), found.within(0.0, NOTICEABLE)
    return [
        Claim(
            "“The response time increases with the number of PDPs.” (figure 5 d)",
            f"From {one} to {most} on one machine the median is {found} as long.",
            grows,
            verdict="it falls" if grows is False else _open(found),
            criterion="the ratio of the medians lies above 1 with its whole interval",
        ),
        Claim(
            "“The impact is small.” (figure 5 d)",
            f"With {most} on one machine the median is {found} that with {one} ({_micros(figure.by[most].median)}"
            " against"
            f" {_micros(figure.by[one].median)}). Hedging, the way the PEP asks by default, takes"
            f" {_micros(hedged.median)}.",
            is_small,
            verdict="the impact is not small" if is_small is False else _open(found),
            criterion=f"{most} take at most {NOTICEABLE} times as long as {one}, with the whole interval",
        ),
    ]


def _transport(figure: Figure) -> list[Claim]:
    direct = figure.ratio(v.OVER_NATS, v.DIRECT)
    secured = figure.ratio(v.SECURED, v.OVER_NATS)
    words = f"Over NATS an answer takes {direct} as long as point to point over TCP; secured {secured} as long as not."
    if v.FAR in figure.by:
        far = figure.ratio(v.FAR, v.DIRECT_FAR)
        words += f" With the PDP on another host, NATS takes {far} as long as direct TCP."
    if v.SPREAD in figure.by:
        spread = figure.ratio(v.SPREAD, v.FAR)
        words += f" A PDP on each other host, all asked at once, take {spread} as long as one of them."
    reply = figure.ratio(v.DIRECT_REPLY, v.BARE)
    agrees = reply.within(0.0, 1.0)
    return [
        Claim(
            "“An alternative design which would lead to reduced response time … each response can be returned to"
            " the PEP"
            " directly instead of through the ENS.” (section 6, future work)",
            f"Answered over TCP, the same question asked over NATS takes {reply} as long as answered over NATS."
            f" {words}",
            agrees,
            verdict="not reduced" if agrees is False else _open(reply),
            criterion="the ratio of the medians, reply by TCP to reply over NATS of the same bare PEP, lies below 1"
            " with"
            " its whole interval",
        )
    ]


CLAIMS: dict[str, Callable[[Figure], list[Claim]]] = {
    v.SUBSCRIPTIONS: _subscriptions,
    v.UNSUBSCRIBING: _unsubscribing,
    v.RECYCLING: _recycling,
    v.PDPS: _pdps,
    v.TRANSPORT: _transport,
}


def _table(summaries: Sequence[TimeSummary]) -> Table:
    rows = [
        [
            each.variant,
            each.requests,
            each.failed,
            _micros(each.median),
            _micros(each.mean),
            _micros(each.p99),
            f"{each.recycled * 100:.1f} %",
        ]
        for each in summaries
    ]
    columns = ["variant", "requests", "not answered", "median", "mean", "99 %", "recycled"]
    return Table(columns, rows, "The figures", folded=True)


def hit_rates(rates: Sequence[HitRate]) -> Section:
    """How many requests caches answer, by what they have learned."""
    text = (
        "How many requests a cache answers by itself once it has learned a random part of all possible answers. In a"
        " hospital made up for the purpose everybody is staff, has a function (nurse, doctor, clerk, head) and has it"
        " in one of twelve wards, some in two; some are pharmacists, auditors or trainers besides. What belongs to a"
        " ward is for its own people, some of it for a function everywhere; role rules say so, and the engine of the"
        " PDPs decides. The share of what is learned counts as the papers on SAAM count it, of all that could be"
        " asked. Where only what is allowed is ever asked, no refusal teaches anything. By attribute policies"
        " (py-abac), one for each permission, and with roles that PDPs look up and no request carries, SAAM-RBAC"
        " learns from answers that name the roles they rest on. Certificates speak of one subject there, and answer"
        " nothing else."
    )
    parts: list[Part] = [text]
    for asked in dict.fromkeys(each.asked for each in rates):
        ways = dict.fromkeys(each.way for each in rates if each.asked == asked)
        series = [_rate_series(way, [e for e in rates if (e.asked, e.way) == (asked, way)]) for way in ways]
        ticks = sorted({each.learned for each in rates})
        chart = Chart("answers learned", "answered by the cache", series, True, True, True, ticks)
        caption = (
            f"{asked[:1].upper()}{asked[1:]}: share of requests answered without a PDP, with 95 % intervals."
        )
        parts.append(Plot(draw(chart), caption))
    claim = _saam_claim(rates)
    rows = [[each.asked, each.way, _share(each.learned), _within(each)] for each in rates]
    table = Table(["", "recycling", "learned", "answered"], rows, "All rates", folded=True)
    return Section("How much recycling answers, by roles as people have them", [*parts, *claim, table])


def _rate_series(way: str, rates: Sequence[HitRate]) -> Series:
    low, high = zip(*(each.interval for each in rates), strict=True)
    return Series(way, [each.learned for each in rates], [each.rate for each in rates], low, high)


def _saam_claim(rates: Sequence[HitRate]) -> list[Claim]:
    """What caches that have learned a tenth answer, of anything that could be asked."""
    tenth = {each.way: each for each in rates if each.learned == TENTH and each.asked == rates[0].asked}
    saam = tenth.get(v.SAAM)
    if saam is None:
        return []
    low, high = saam.interval
    agrees = True if low >= SAAM_RATE else False if high < SAAM_RATE else None
    others = ", ".join(f"{way} {_within(each)}" for way, each in tenth.items() if way != v.SAAM)
    return [
        Claim(
            f"With {_share(TENTH)} of the answers cached, SAAM answers {_share(SAAM_RATE)} of the requests.",
            f"Here SAAM-RBAC answers {_within(saam)}; {others}. It learns permission by permission, so it depends on"
            " how many people with the same roles ask for the same; certificates say which role it was.",
            agrees,
            by="The SAAM paper",
            verdict="fewer here" if agrees is False else "",
            criterion=f"the whole interval of SAAM-RBAC's rate with {_share(TENTH)} learned is at or above"
            f" {_share(SAAM_RATE)}",
        )
    ]


def _within(rate: HitRate) -> str:
    low, high = rate.interval
    return f"{_share(rate.rate)} ({low * 100:.1f} to {high * 100:.1f})"


def _share(share: float) -> str:
    return f"{share * 100:.3g} %"


def _micros(seconds: float) -> str:
    return f"{seconds * 1e6:,.0f} µs"
