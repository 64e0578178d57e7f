"""Requests with the attributes that only PDPs know, and decisions that say how long they rest on them.

Attributes that the policies declare as provided are taken from their providers alone; what an asker sends in their
place is dropped, or an asker could choose them. They are looked up for a request only if a policy that could apply to
it uses them. Invariant: a decision, its certificate and its expiry are right for everyone who can see what was sent,
and not what was looked up.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from msgspec.structs import replace

from authz import Basis, Decision, Entity, Reason, Request
from authz.change import ROLES
from authz.decision import HeldRoles
from authz.predicate import REQUEST, Certificate, Equal, EqualDocument, Exists, Literal, Path, paths
from authz.predicate.compiler import compile_reader
from pdp.attributes.providers import CachingProvider, Known, ProviderFailed
from pdp.bundle import PolicySet, Root
from pdp.engine import Index

WHERE_TO_SAY = "name a provider of it in the file that `--attributes` names, in process `attributes=`"
"""What to do about an attribute without a provider."""

_Asked: TypeAlias = tuple[CachingProvider, Root]
_Found: TypeAlias = Mapping[_Asked, dict[str, Known] | BaseException]


@dataclass(frozen=True, slots=True)
class Enriched:
    """A request as it is decided: with what was looked up, until when each of that holds, and what failed."""

    request: Request
    until: Mapping[Path, float] = field(default_factory=dict)
    problem: str = ""


class Enricher:
    """Looks up what policies need to know."""

    def __init__(self, policies: PolicySet, providers: Sequence[CachingProvider]) -> None:
        self._hidden = policies.provided
        self._providers: dict[Path, list[CachingProvider]] = defaultdict(list)
        """For each attribute, those with the longest `under` first."""
        for each in sorted(providers, key=lambda each: len(each.under), reverse=True):
            for path in each.provides:
                self._providers[path].append(each)
        need = policies.needed()
        self._needs = (
            Index(need(number) for number, _ in policies.needs())
            if policies.packed is None
            else Index.opened(policies.packed.needs, need)
        )

    async def enrich(self, requests: Sequence[Request]) -> list[Enriched]:
        """Each request with what it needs; what several need is looked up once."""
        stripped = [self._strip(each) for each in requests]
        return await self._look_up(stripped, [self._needed(each) for each in stripped])

    async def enrich_but(self, request: Request, root: Root) -> Enriched:
        """A request with all that can be looked up, but for one root that is not known."""
        known = frozenset(path for path in self._hidden if path.root != root)
        (enriched,) = await self._look_up([self._strip(request)], [known])
        return enriched

    async def _look_up(self, stripped: list[Request], needs: list[frozenset[Path]]) -> list[Enriched]:
        wanted: dict[_Asked, set[str]] = defaultdict(set)
        for request, needed in zip(stripped, needs, strict=True):
            for path in needed:
                named = _id(request, _root(path))
                if (provider := self._provider(path, named)) is not None:
                    wanted[provider, _root(path)].add(named)
        asked = list(wanted)
        answers = await asyncio.gather(
            *(provider.look_up(root, wanted[provider, root]) for provider, root in asked),
            return_exceptions=True,
        )
        found = dict(zip(asked, answers, strict=True))
        return [self._fill(*each, found) for each in zip(stripped, needs, strict=True)]

    def _provider(self, path: Path, named: str) -> CachingProvider | None:
        """Who is asked for an attribute of this entity."""
        return next((each for each in self._providers.get(path, ()) if named.startswith(each.under)), None)

    def settle(self, enriched: Enriched, decision: Decision) -> Decision:
        """The decision as others may use it: for as long, and for whom, what was looked up stays as it is."""
        if decision.basis is Basis.ROLES and ROLES in self._hidden:
            decision = _name_roles(decision, enriched)
        certificate, until = decision.certificate, enriched.until
        if certificate is not None:
            looked_at = {path for each in certificate for path in self._hidden_in(each)}
            if not looked_at:
                return decision
            pinned = self._pin_all(certificate, enriched) if looked_at <= until.keys() else None
            decision = replace(decision, certificate=pinned)
            until = {path: until[path] for path in looked_at} if pinned is not None else until
        ends = [*until.values(), *([decision.expires] if decision.expires is not None else [])]
        return replace(decision, expires=min(ends, default=None))

    def _strip(self, request: Request) -> Request:
        """The request without what only providers may say."""
        for path in self._hidden:
            given = _attributes(request, _root(path))
            if path.keys[0] in given:
                left = {name: value for name, value in given.items() if name != path.keys[0]}
                request = _with(request, _root(path), left)
        return request

    def _needed(self, request: Request) -> frozenset[Path]:
        found: list[frozenset[Path]] = []
        try:
            self._needs.search(request, found.append)
        except Exception:  # a condition that cannot be evaluated may be one that needs anything
            return self._hidden
        return frozenset().union(*found)

    def _fill(self, request: Request, paths: frozenset[Path], found: _Found) -> Enriched:
        until: dict[Path, float] = {}
        for path in sorted(paths, key=str):
            root = _root(path)
            named = _id(request, root)
            provider = self._provider(path, named)
            if provider is None:
                of = f" of `{named}`" if path in self._providers else ""
                return Enriched(request, problem=f"nothing provides `{path}`{of} here: {WHERE_TO_SAY}")
            answer = found[provider, root]
            if isinstance(answer, BaseException):
                why = str(answer) if isinstance(answer, ProviderFailed) else type(answer).__name__
                return Enriched(request, problem=f"`{path}` could not be had: {why}")
            known = answer[named]
            until[path] = known.until
            if (value := known.attributes.get(str(path.keys[0]))) is not None:
                request = _with(request, root, {**_attributes(request, root), str(path.keys[0]): value})
        return Enriched(request, until)

    def _hidden_in(self, literal: Literal) -> Iterator[Path]:
        for path in paths(literal.comparison):
            if (top := Path(path.root, path.keys[:1])) in self._hidden:
                yield top

    def _pin_all(self, certificate: Certificate, enriched: Enriched) -> Certificate | None:
        """The certificate in terms of what was sent; None if that cannot be said."""
        pinned: dict[Literal, None] = {}
        for literal in certificate:
            if not any(self._hidden_in(literal)):
                pinned[literal] = None
                continue
            for path in paths(literal.comparison):
                hidden = Path(path.root, path.keys[:1]) in self._hidden
                pin = _pin_entity(path, enriched.request) if hidden else _pin_value(path, enriched.request)
                if pin is None:
                    return None
                pinned.update(dict.fromkeys(pin))
        return tuple(pinned)


def unavailable(enriched: Enriched, epoch: int) -> Decision:
    """The answer where something needed could not be had."""
    return Decision(False, Reason.ATTRIBUTE_UNAVAILABLE, detail=enriched.problem, epoch=epoch)


def _name_roles(decision: Decision, enriched: Enriched) -> Decision:
    """The decision with the roles it rests on, which were looked up; without its basis if they cannot be told."""
    found = enriched.request.subject.attributes.get(str(ROLES.keys[0]), [])
    told = isinstance(found, list) and all(isinstance(each, str) for each in found)
    if not told or ROLES not in enriched.until or decision.expires is not None:
        return replace(decision, basis=None)
    return replace(decision, roles=HeldRoles(tuple(cast("list[str]", found)), enriched.until[ROLES]))


def _pin_entity(path: Path, request: Request) -> Certificate:
    """What was looked up belongs to this entity; what belongs to the context is the same for everyone."""
    if path.root == "context":
        return ()
    return (Literal(Equal(Path(path.root), _id(request, _root(path)))),)


def _pin_value(path: Path, request: Request) -> Certificate | None:
    """The value at a path is what was sent there."""
    value = compile_reader(path, REQUEST)(request)
    if value is None:
        return (Literal(Exists(path), False),)
    if isinstance(value, (str, int, float, bool)):
        return (Literal(Equal(path, value)),)
    try:
        return (Literal(EqualDocument(path, json.dumps(value, allow_nan=False))),)
    except (TypeError, ValueError, RecursionError):
        return None


def _root(path: Path) -> Root:
    return cast("Root", path.root)


def _id(request: Request, root: Root) -> str:
    return "" if root == "context" else _entity(request, root).id


def _attributes(request: Request, root: Root) -> Mapping[str, object]:
    return request.context if root == "context" else _entity(request, root).attributes


def _entity(request: Request, root: Root) -> Entity:
    entities = {"subject": request.subject, "object": request.object, "action": request.action}
    return entities[root]


def _with(request: Request, root: Root, given: dict[str, object]) -> Request:
    value = given if root == "context" else Entity(_id(request, root), given)
    return replace(request, **{root: value})
