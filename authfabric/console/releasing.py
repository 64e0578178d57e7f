"""Changing what is in force from the console: previewed against what was decided lately, then released and signed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import time

from authfabric.console.fabric_watch_service import Live
from authfabric.console.policy_listing import PolicyListing, read_listing, read_release
from authz import AuthFabricError, Decision, Identity, InvalidRequest, Request
from authz.release import Released
from pdp.bundle import Bundle, File, PolicySet
from pdp.documents import Finding
from pdp.lint import Difference, check
from pdp.releases import Publisher

MOST_COMPARED = 2000
"""Maximum requests, of those decided last, that are decided by both policies."""
EXAMPLES = 20
"""Maximum requests shown that would be decided otherwise."""


MOST_DIGITS = 12
"""Maximum digits of a release's number."""


class NothingToSignWith(AuthFabricError):
    """The console was started without a key, so it changes nothing."""

    def __init__(self) -> None:
        super().__init__("this console has no key to sign releases with: start it with `--key`")


@dataclass(frozen=True, slots=True)
class Changed:
    """A request that two policies decide differently."""

    request: Request
    before: Decision
    after: Decision


@dataclass(frozen=True, slots=True)
class Compared:
    """What distinguishes two sets of policies, and what that would have meant lately."""

    before: str
    after: str
    difference: Difference
    requests: int
    """How many requests that were decided lately were decided by both."""
    changed: int
    examples: list[Changed]


@dataclass(frozen=True, slots=True)
class Draft:
    """A file of the policies in force as somebody wants it, and what would come of that."""

    file: str
    text: str
    findings: list[Finding]
    compared: Compared | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be released, once it is confirmed by typing `phrase`."""

    title: str
    phrase: str
    bundle: Bundle
    message: str
    compared: Compared
    fields: dict[str, str]
    """What the form must send again."""


class Releasing:
    """The releases of a domain, and a key to sign the next with; None to look only."""

    def __init__(self, live: Live, identity: Identity | None, cases: Path | None = None) -> None:
        """`cases` are the test cases of the policies: a file, or the folder of policies."""
        self._live = live
        self._identity = identity
        self._cases = cases

    @property
    def able(self) -> bool:
        """Whether there is a key to sign with."""
        return self._identity is not None

    async def shelf(self, epoch: int = 0) -> PolicyListing:
        """A release with its files, or what is in force."""
        return await read_listing(self._live.bus, self._live.domain, self._live.trusted, epoch, self._cases)

    async def compare(self, first: int, second: int) -> Compared:
        """What changes from one release to another."""
        (_, old), (_, new) = await self._bundle(first), await self._bundle(second)
        return await asyncio.to_thread(
            _compare, f"release {first}", old, f"release {second}", new, self._seen()
        )

    async def draft(self, path: str, text: str | None) -> Draft:
        """A file of what is in force, or a change of it with what that would alter."""
        _, bundle = await self._bundle(0)
        file = next((each for each in bundle.files if each.path == path), None)
        if text is None:
            return Draft(path, file.text if file is not None else "", [], None)
        edited = _edited(bundle, path, text)
        findings = [each for each in await asyncio.to_thread(check, edited) if each.file == path]
        try:
            compared = await asyncio.to_thread(
                _compare, "in force", bundle, "as edited", edited, self._seen()
            )
        except AuthFabricError as error:
            return Draft(path, text, findings, None, str(error))
        return Draft(path, text, findings, compared)

    async def plan(self, fields: Mapping[str, str]) -> Plan:
        """What a form asks for. Raises InvalidRequest, NoSuchRelease, and what reading policies raises."""
        _, current = await self._bundle(0)
        if (to := fields.get("to", "")).isdecimal() and len(to) <= MOST_DIGITS:
            _, bundle = await self._bundle(int(to))
            title, phrase, sent = f"Roll back to release {to}", f"roll back to {to}", {"to": to}
            message = f"back to release {to}"
        elif path := fields.get("file", ""):
            text = fields.get("text", "").replace("\r\n", "\n")
            bundle = _edited(current, path, text)
            title, phrase, sent = f"Push {path}", f"push {path}", {"file": path, "text": text}
            message = f"{path} edited"
        else:
            raise InvalidRequest("to", "names no release, and no file is given")
        compared = await asyncio.to_thread(_compare, "in force", current, "after this", bundle, self._seen())
        return Plan(title, phrase, bundle, message, compared, sent)

    async def carry_out(self, plan: Plan, viewer: str, message: str) -> Released:
        """Release what was planned. Raises NothingToSignWith, and what a push raises."""
        if self._identity is None:
            raise NothingToSignWith
        said = f"{message.strip() or plan.message} (by {viewer} in the console)"
        live = self._live
        publisher = Publisher(live.bus, live.domain, self._identity, live.trusted, time)
        return (await publisher.push(plan.bundle, said)).released

    async def _bundle(self, epoch: int) -> tuple[Released | None, Bundle]:
        return await read_release(self._live.bus, self._live.domain, self._live.trusted, epoch)

    def _seen(self) -> list[Request]:
        """The requests decided last, each once."""
        seen = dict[str, Request]()
        for line in reversed(self._live.log.lines):
            if len(seen) >= MOST_COMPARED:
                break
            seen.setdefault(repr(line.request), line.request)
        return list(seen.values())


def _edited(bundle: Bundle, path: str, text: str) -> Bundle:
    others = [each for each in bundle.files if each.path != path]
    return Bundle.of([*others, File(path, text)])


def _compare(before: str, old: Bundle, after: str, new: Bundle, requests: Iterable[Request]) -> Compared:
    first, second = PolicySet.read(old), PolicySet.read(new)
    engines = first.engine(), second.engine()
    examples, changed, count = list[Changed](), 0, 0
    for request in requests:
        count += 1
        was, will_be = (engine.evaluate(request) for engine in engines)
        if was.allowed != will_be.allowed:
            changed += 1
            if len(examples) < EXAMPLES:
                examples.append(Changed(request, was, will_be))
    return Compared(before, after, Difference.between(first, second), count, changed, examples)
