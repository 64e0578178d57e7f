"""HTML of the console: templates that escape whatever they show, and headers that let nothing foreign run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse

from authfabric.console.capability_graph import LinkState
from authfabric.console.decision_log import Line
from authfabric.console.questions import Asked
from authz import Request

FOLDER = Path(__file__).parent
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
    " connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
}
"""Sent with every answer."""
WIDTH, HEIGHT = 480, 96
"""The size of a plot, in its own units."""

_templates = Environment(
    loader=FileSystemLoader(FOLDER / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def moment(at: float) -> str:
    """A time as it is shown: in UTC, so that logs of several machines can be compared."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S") if at else "-"


def clock_time(at: float) -> str:
    """A time of the day with milliseconds."""
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S.%f")[:-3]


def size(count: int) -> str:
    """A number of bytes for people."""
    amount = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"


def why_link(line: Line) -> str:
    """Where a decision is explained."""
    return "/why?" + urlencode({name: text for name, text in fields_of(line.request).items() if text})


def fields_of(request: Request) -> dict[str, str]:
    """A request as the fields of the form that asks it again."""
    return {
        "subject": request.subject.id,
        "subject_attributes": _json(request.subject.attributes),
        "object": request.object.id,
        "object_attributes": _json(request.object.attributes),
        "action": request.action.id,
        "context": _json(request.context),
    }


def _json(attributes: Any) -> str:
    return msgspec.json.encode(attributes).decode() if attributes else ""


def plot_points(values: Sequence[float], most: float) -> str:
    """One line of a plot, as an SVG polyline has it."""
    step = WIDTH / max(1, len(values) - 1)
    height = [HEIGHT - 2 - (HEIGHT - 4) * each / (most or 1) for each in values]
    return " ".join(f"{number * step:.1f},{each:.1f}" for number, each in enumerate(height))


def why_found(asked: Asked, wanted: str, found: str) -> str:
    """Where what a search has found is explained."""
    return "/why?" + urlencode(
        {name: text for name, text in {**asdict(asked), wanted: found}.items() if text}
    )


def go_on(asked: Asked, cursor: str) -> str:
    """The next page of a search."""
    return "/search?" + urlencode({**asdict(asked), "cursor": cursor})


def host(address: str) -> str:
    """Whose an address is."""
    return urlsplit(address).hostname or address


def link_style(state: LinkState) -> str:
    """The class by which a link of that state is coloured."""
    return {LinkState.HOLDS: "good", LinkState.SOON: "warn", LinkState.EARLY: "warn"}.get(state, "bad")


_templates.filters.update(
    moment=moment,
    clock_time=clock_time,
    size=size,
    why_link=why_link,
    why_found=why_found,
    go_on=go_on,
    host=host,
    link_style=link_style,
)
_templates.globals.update(plot_points=plot_points, plot_width=WIDTH, plot_height=HEIGHT)


def fragment(name: str, **values: object) -> str:
    """A part of a page."""
    return _templates.get_template(name).render(**values)


def page(name: str, status: int = 200, **values: Any) -> HTMLResponse:
    """A whole page."""
    return HTMLResponse(fragment(name, **values), status, HEADERS)
