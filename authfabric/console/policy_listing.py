"""The policies of a release as they are written: files, where each policy stands, and what is found in them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path

from authz import AuthFabricError, PublicKey
from authz.release import Released
from bus.feeds import Feed
from bus.nats import Connection
from pdp.bundle import Bundle, File, PolicySet, places_of, read_cases
from pdp.documents import Finding
from pdp.lint import Report, check, run_cases
from pdp.lint import read_cases as parse_cases
from pdp.releases import NoSuchRelease


@dataclass(frozen=True, slots=True)
class Place:
    """Where a policy is written."""

    file: str
    lines: list[tuple[int, str]]


@dataclass(frozen=True, slots=True)
class PolicyListing:
    """A release, its files and what `policy check` says of them."""

    released: Released | None
    bundle: Bundle
    findings: list[Finding] = field(default_factory=list)
    names: tuple[str, ...] = ()
    tested: Report | None = None
    """What came of the test cases, if there are any."""
    untested: str = ""
    """Why not, if that is so."""

    def find(self, path: str) -> File | None:
        """A file by its path, or the first."""
        files = self.bundle.files
        return next((each for each in files if each.path == path), files[0] if files and not path else None)

    def policy(self, name: str) -> Place | None:
        """Where an attribute policy stands, up to where the next begins."""
        for file in self.bundle.files:
            starts = _starts(file)
            if name in starts:
                first = starts[name]
                later = [line for line in starts.values() if line > first]
                lines = file.text.splitlines()
                last = min(later) - 1 if later else len(lines)
                return Place(file.path, _without_tail(list(enumerate(lines[first - 1 : last], start=first))))
        return None

    def findings_of(self, file: File) -> list[Finding]:
        return [each for each in self.findings if each.file == file.path]


def _starts(file: File) -> dict[str, int]:
    """The line on which each attribute policy of a file begins."""
    try:
        document = PolicySet.read(Bundle.of([file]))
    except AuthFabricError:
        return {}
    named = [each for each in document.names if f"{each}" in file.text]
    starts = dict[str, int]()
    for name in named:
        try:
            starts[name] = places_of(file, [(name, None)])[0][0]
        except (KeyError, AuthFabricError):
            continue
    return starts


def _without_tail(lines: list[tuple[int, str]]) -> list[tuple[int, str]]:
    while lines and (not lines[-1][1].strip() or lines[-1][1].startswith("#")):
        lines.pop()
    return lines


async def read_release(
    bus: Connection, domain: str, trusted: Collection[PublicKey], epoch: int = 0
) -> tuple[Released | None, Bundle]:
    """The bundle of a release, or of the one in force for 0. Raises NoSuchRelease, and what the store raises."""
    feed = Feed(bus, domain, trusted)
    history = [each.released for each in await feed.history() if each.released is not None]
    if not history and not epoch:
        return None, Bundle.of([])
    found = next((each for each in reversed(history) if each.epoch == epoch or not epoch), None)
    if found is None:
        raise NoSuchRelease(domain, epoch)
    packed = await feed.store.get(feed.domain, found.release.chunks)
    return found, Bundle.unpack(packed, found.release.bundle)


async def read_listing(
    bus: Connection,
    domain: str,
    trusted: Collection[PublicKey],
    epoch: int = 0,
    cases: Path | None = None,
) -> PolicyListing:
    """A release with what is found in it, and what comes of test cases, where those are given."""
    released, bundle = await read_release(bus, domain, trusted, epoch)
    return await asyncio.to_thread(_examined, released, bundle, cases)


def _examined(released: Released | None, bundle: Bundle, cases: Path | None) -> PolicyListing:
    try:
        policies = PolicySet.read(bundle)
        found = PolicyListing(released, bundle, list(check(bundle)), policies.names)
    except AuthFabricError:
        return PolicyListing(released, bundle)
    if cases is None:
        return found
    try:
        return replace(found, tested=run_cases(policies, parse_cases(read_cases(cases))))
    except AuthFabricError as error:
        return replace(found, untested=str(error))
