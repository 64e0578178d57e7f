"""Capabilities as a graph: from each root to those who hold what it has granted, with until when each link lasts."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from authz.errors import InvalidSignature
from authz.spki import Capability, Certificate, Grant, Revocations
from authz.spki.revocation import key_id

SOON_SECONDS = 14 * 86_400.0
"""A link that ends within this time is marked."""
COLUMN, ROW = 330, 54
"""Distances between holders, in units of the drawing."""
WIDTH, HEIGHT = 230, 40
"""The size of a holder there."""


class LinkState(enum.StrEnum):
    """What a link is worth."""

    HOLDS = "holds"
    SOON = "ends soon"
    EARLY = "not yet"
    ENDED = "ended"
    REVOKED = "revoked"
    FORGED = "not signed by its issuer"


@dataclass(frozen=True, slots=True)
class Link:
    """One certificate: what its issuer lets its holder do."""

    name: str
    """Under which it is kept."""
    issuer: str
    holder: str
    rights: tuple[str, ...]
    end: float | None
    passes_on: bool
    state: LinkState


@dataclass(slots=True)
class Holder:
    """A key, and where it stands in the drawing."""

    key: str
    name: str
    column: int = 0
    row: float = 0.0
    links: list[Link] = field(default_factory=list)
    """By which it holds what it does."""

    @property
    def left(self) -> float:
        return self.column * COLUMN

    @property
    def top(self) -> float:
        return self.row * ROW + 7


@dataclass(frozen=True, slots=True)
class Graph:
    """Holders from the roots on, and the links between them."""

    holders: list[Holder]
    links: list[Link]
    width: float
    height: float

    @property
    def names(self) -> dict[str, str]:
        """What holders are called, by their keys."""
        return {each.key: each.name for each in self.holders}

    def curve(self, link: Link) -> str:
        """A link as an SVG path."""
        ends = {each.key: each for each in self.holders}
        from_, to = ends[link.issuer], ends[link.holder]
        x, y = from_.left + WIDTH, from_.top + HEIGHT / 2
        end_x, end_y = to.left, to.top + HEIGHT / 2
        middle = (x + end_x) / 2
        return f"M{x:.0f},{y:.0f} C{middle:.0f},{y:.0f} {middle:.0f},{end_y:.0f} {end_x:.0f},{end_y:.0f}"


def graph(
    chains: Iterable[tuple[str, Sequence[Certificate]]],
    names: Mapping[str, str],
    revocations: Revocations,
    now: float,
) -> Graph:
    """What several chains amount to. `names` are those of keys."""
    links = dict[bytes, Link]()
    for name, chain in chains:
        for certificate in chain:
            last = certificate is chain[-1]
            links.setdefault(certificate.id, _link(name if last else "", certificate, revocations, now))
    return _laid_out(list(links.values()), dict(names))


def _link(name: str, certificate: Certificate, revocations: Revocations, now: float) -> Link:
    capability = certificate.unverified()
    rights, end = tuple(map(_said, capability.authority.grants)), capability.validity.end
    return Link(
        name,
        str(capability.issuer),
        str(capability.subject),
        rights,
        None if end is None else float(end),
        capability.delegate,
        _state(certificate, capability, revocations, now),
    )


def _state(
    certificate: Certificate, capability: Capability, revocations: Revocations, now: float
) -> LinkState:
    validity, ids = capability.validity, (certificate.id, key_id(capability.subject))
    try:
        certificate.open()
    except InvalidSignature:
        return LinkState.FORGED
    if revocations.revoker(ids, [capability.issuer]) is not None:
        return LinkState.REVOKED
    if validity.end is not None and now >= validity.end:
        return LinkState.ENDED
    if now < validity.start:
        return LinkState.EARLY
    soon = validity.end is not None and now >= validity.end - SOON_SECONDS
    return LinkState.SOON if soon else LinkState.HOLDS


def _said(grant: Grant) -> str:
    rights = "*" if grant.rights is None else "|".join(sorted(grant.rights))
    return f"{grant.resource.kind} {grant.resource.pattern}: {rights}"


def _laid_out(links: list[Link], names: dict[str, str]) -> Graph:
    """Roots at the left, and each holder one column right of who is nearest to a root among its issuers."""
    for link in links:
        names.setdefault(link.holder, link.name or link.holder[:12])
        names.setdefault(link.issuer, link.issuer[:12])
    below = dict[str, list[str]]()
    for link in sorted(links, key=lambda each: names[each.holder]):
        below.setdefault(link.issuer, []).append(link.holder)
    held = {each.holder for each in links if each.holder != each.issuer}
    roots = [key for key in names if key in below and key not in held] or list(below)[:1]
    columns = dict.fromkeys(roots, 0)
    queue = list(roots)
    for key in queue:
        for other in below.get(key, ()):
            if other not in columns:
                columns[other] = columns[key] + 1
                queue.append(other)
    holders = {key: Holder(key, names[key], column) for key, column in columns.items()}
    rows, placed = 0, set[str]()

    def place(key: str) -> None:
        nonlocal rows
        placed.add(key)
        own = [each for each in dict.fromkeys(below.get(key, ())) if each in holders and each not in placed]
        own = [each for each in own if columns[each] > columns[key]]
        for each in own:
            if each not in placed:
                place(each)
        if own:
            holders[key].row = (holders[own[0]].row + holders[own[-1]].row) / 2
        else:
            holders[key].row = float(rows)
            rows += 1

    for key in roots:
        place(key)
    drawn = [each for each in links if each.issuer in holders and each.holder in holders]
    for link in drawn:
        holders[link.holder].links.append(link)
    deepest = max(columns.values(), default=0)
    return Graph(list(holders.values()), drawn, deepest * COLUMN + WIDTH + 2, max(1, rows) * ROW + 2)
