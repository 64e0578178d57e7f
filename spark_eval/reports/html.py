"""Reports: one self-contained HTML file that says what was found, shows it, and how to find it again.

Every text is the user's or ours, never markup: it is escaped, and only `code` between backticks is set apart.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

_CODE = re.compile(r"`([^`]+)`")
_UNIT = re.compile(r"(\d) (?=%|µs|ms|s\b)")
_NUMBER = re.compile(r"[-+]?[\d,.]+(\s?(%|ms|µs|s|MB|points))?( ?± ?[\d,.]+)?( ?%)?")


@dataclass(frozen=True, slots=True)
class Plot:
    """An SVG element from `spark_eval.reports.plots`, with what it shows in words."""

    svg: str
    caption: str


@dataclass(frozen=True, slots=True)
class Claim:
    """What somebody says, beside what we find, and whether the two agree.

    None means that it is not the question or, with a criterion, that what was found does not settle it.
    """

    said: str
    found: str
    agrees: bool | None = None
    by: str = "The paper"
    verdict: str = ""
    """In which way they differ, or why that is open."""
    criterion: str = ""
    """What had to be found for both to agree."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under headings. With `folded` it opens at a click on its title."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    title: str = ""
    folded: bool = False


Part = str | Plot | Claim | Table
"""What a section consists of; a plain string is a paragraph."""


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    parts: Sequence[Part]


@dataclass(frozen=True, slots=True)
class Report:
    """A title, the result in one paragraph, the figures to remember, the sections, and the command to repeat it."""

    title: str
    lead: str
    command: str
    sections: Sequence[Section]
    facts: Sequence[tuple[str, object]] = ()
    """Label and value, few."""
    notes: str = ""
    """Small print: versions, seed, machine."""


def render(report: Report) -> str:
    """The report as an HTML document that needs nothing beside itself."""
    style = Path(__file__).with_name("report.css").read_text()
    body = "\n".join(_body(report))
    return f"""\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{html.escape(report.title)}</title>
<style>
{style}</style>
<main>
{body}
</main>
</html>
"""


def _body(report: Report) -> Iterable[str]:
    yield f"<header>\n<h1>{_text(report.title)}</h1>\n<p class=lead>{_text(report.lead)}</p>"
    if report.facts:
        facts = (
            f"<div><dd>{_value(value)}</dd><dt>{_text(label)}</dt></div>" for label, value in report.facts
        )
        yield f"<dl class=facts>{''.join(facts)}</dl>"
    yield "</header>"
    if len(report.sections) > 2:
        yield _contents(report.sections)
    for number, section in enumerate(report.sections, 1):
        yield f'<section id="s{number}">\n<h2>{_text(section.title)}</h2>'
        yield from map(_part, section.parts)
        yield "</section>"
    yield f"<footer>\n<p>To repeat it:</p>\n<pre>{html.escape(report.command)}</pre>"
    yield f"<p class=notes>{_text(report.notes)}</p>\n</footer>"


def _contents(sections: Sequence[Section]) -> str:
    entries = (f'<li><a href="#s{n}">{_text(each.title)}</a></li>' for n, each in enumerate(sections, 1))
    return f"<nav><ol>{''.join(entries)}</ol></nav>"


def _part(part: Part) -> str:
    match part:
        case Plot():
            return f"<figure>\n{part.svg}\n<figcaption>{_text(part.caption)}</figcaption>\n</figure>"
        case Claim():
            return _claim(part)
        case Table():
            return _table(part)
        case _:
            return f"<p>{_text(part)}</p>"


def _claim(claim: Claim) -> str:
    kind, verdict = {True: ("yes", "agrees"), False: ("no", "differs"), None: ("open", "undecided")}[
        claim.agrees
    ]
    reason = claim.verdict or ("the interval is too wide" if claim.agrees is None and claim.criterion else "")
    if claim.agrees is None and not reason:
        verdict = ""
    elif reason:
        verdict = f"{verdict}: {_text(reason)}"
    criterion = f"<p class=criterion>Agrees if {_text(claim.criterion)}.</p>" if claim.criterion else ""
    mark = f"<span class=verdict>{verdict}</span>" if verdict else ""
    said, found = _text(claim.said), _text(claim.found)
    return (
        f'<div class="claim {kind}"><div><h3>{_text(claim.by)}</h3><p>{said}</p></div>'
        f"<div><h3>Here {mark}</h3><p>{found}</p>{criterion}</div></div>"
    )


def _table(table: Table) -> str:
    heads = "".join(f"<th>{_text(column)}</th>" for column in table.columns)
    rows = "\n".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in table.rows)
    grid = (
        f"<div class=scroll><table>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>"
    )
    if table.folded:
        return f"<details><summary>{_text(table.title or 'The figures')}</summary>\n{grid}\n</details>"
    return f"<h3>{_text(table.title)}</h3>\n{grid}" if table.title else grid


def _cell(value: object) -> str:
    text = _value(value)
    is_number = isinstance(value, int | float) or _NUMBER.fullmatch(text.replace("&nbsp;", " ")) is not None
    return f"<td class=number>{text}</td>" if is_number else f"<td>{text}</td>"


def _value(value: object) -> str:
    """Numbers to four digits, with separators; None as a dash; anything else as text."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.4g}"
        case _:
            return _text(str(value))


def _text(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", _UNIT.sub("\\1&nbsp;", html.escape(text)))
