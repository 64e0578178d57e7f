"""Exposure read by brute force: every event, client, broker and moment by itself, as a broker would judge it then."""

from __future__ import annotations

from contextlib import AsyncExitStack

from authfabric.exposure import Form, Tally
from authfabric.exposure.access_finder import SECRET, _Unlimited
from authz import Entity
from authz.predicate import EVENT, compile_predicate
from authz.rules import FluentRule, parse_rules
from authz.spki import Right
from pep import Enforcer
from pubsub_core.access import GENERIC, Ask, Enforcement, Holder, Rights
from pubsub_core.errors import EventError
from pubsub_core.events import encode
from pubsub_core.rules import Context, Fluent, Fluents, Judge, Rulebook, Unknowable

_granted = {}
"""What policies say does not depend on the moment."""


async def read_by_brute_force(events, question, evidence, periods, name):
    """In which form somebody could see the attribute of each event: as it was published, and at all."""
    found = []
    _granted.clear()
    async with AsyncExitStack() as stack:
        peps = [
            await stack.enter_async_context(
                Enforcer.local({each.path: each.text for each in period.bundle.files}, recycling=None)
            )
            for period in periods
        ]
        for event in events:
            if event.attributes.get(question.attribute) is None or not _in(question.within, event.time):
                continue
            live = past = Form.HIDDEN
            for at in _moments(event, evidence, periods):
                for period, pep in zip(periods, peps, strict=True):
                    if not _in(period.span, at) or at >= question.until:
                        continue
                    for client in evidence.clients:
                        if client.credential.name != name or not _in(client.span, at):
                            continue
                        for host in client.brokers or ("",):
                            shown = await _at(event, question, evidence, period, pep, client, host, at, True)
                            past = max(past, shown)
                            if at == event.time:
                                shown = await _at(
                                    event, question, evidence, period, pep, client, host, at, False
                                )
                                live, past = max(live, shown), max(past, shown)
            found.append((event, live, past))
    return found


def tally(then, proposed=None):
    """What that comes to."""
    seen = [(event, live, past) for event, live, past in then if past >= Form.ALTERED]
    times = [event.time for event, _, _ in seen]
    prevented = blurred = None
    if proposed is not None:
        after = {event.sequence: past for event, _, past in proposed}
        prevented = sum(after[event.sequence] is Form.HIDDEN for event, _, _ in seen)
        blurred = sum(after[event.sequence] is Form.ALTERED and past is Form.FULL for event, _, past in seen)
    return Tally(
        sum(past is Form.FULL for _, _, past in then),
        sum(past is Form.ALTERED for _, _, past in then),
        sum(past is Form.UNKNOWN for _, _, past in then),
        sum(live >= Form.ALTERED for _, live, _ in seen),
        min(times, default=None),
        max(times, default=None),
        prevented,
        blurred,
    )


def _in(span, at):
    return span.start <= at < span.end


def _moments(event, evidence, periods):
    """When it was published, and whenever something changed since."""
    spans = [each.span for each in periods] + [each.span for each in evidence.clients]
    spans += [span for held in evidence.keys.held.values() for each in held.values() for span in each]
    edges = {each.start for each in spans} | {each.at for each in evidence.marks}
    return sorted({event.time, *(at for at in edges if at > event.time)})


async def _at(event, question, evidence, period, pep, client, host, at, past):
    catalogue = evidence.catalogue
    rights, holder = Rights(pep, catalogue, predicates=GENERIC), Holder(client.credential)
    connects = pep, client.credential.name, host
    if host and connects not in _granted:
        _granted[connects] = (await rights.allows(holder, Entity(f"/brokers/{host}"), "connect")).allowed
    if host and not _granted[connects]:
        return Form.HIDDEN
    opened = event
    if host in evidence.keys.held and not (past and host == question.broker):
        held = evidence.keys.held[host]
        lacking = {
            id_ for id_ in evidence.keys.sealed if not any(_in(span, at) for span in held.get(id_, ()))
        }
        opened = event.narrowed(frozenset(event.attributes) - lacking)
    names = catalogue.attributes(event.version)
    fixed = {names[id_].name: value for id_, value in opened.attributes.items()}
    forms = [Form.HIDDEN]
    for sub in ({}, fixed):
        ask = Ask(holder, Right.SUBSCRIBE, event.type, sub, {} if past else None)
        key = pep, client.credential.name, past, tuple(sub.items())
        if key not in _granted:
            (granted,) = await rights.grants([ask], at)
            _granted[key] = granted.restrictions.get(event.type)
        restriction = _granted[key]
        if restriction is not None:
            forms.append(_shown(event, opened, question, evidence, period, restriction, at, past))
    return max(forms)


def _shown(event, opened, question, evidence, period, restriction, at, past):
    book = Rulebook(evidence.catalogue, SECRET, _context(evidence, period))
    judges = tuple(Judge(each, book) for each in restriction.every_rule)
    enforcement = Enforcement(restriction, judges=judges)
    value = opened.attributes.get(question.attribute)
    shown = enforcement.show(opened, len(encode(event)), at, past=past)
    if value is None or not compile_predicate(restriction.filter, EVENT)(opened.attributes):
        return Form.HIDDEN
    if shown is None:
        try:
            for judge in judges:
                judge.apply(opened, at, restriction.visible, past)
        except Unknowable:
            visible = restriction.visible is None or question.attribute in restriction.visible
            return Form.UNKNOWN if visible else Form.HIDDEN
        except EventError:
            pass
        return Form.HIDDEN
    seen = [each.attributes.get(question.attribute) for each in shown.events]
    return (
        Form.FULL
        if value in seen
        else Form.ALTERED
        if any(each is not None for each in seen)
        else Form.HIDDEN
    )


def _context(evidence, period):
    fluents = Fluents()
    for mark in evidence.marks:
        act = fluents.initiate if mark.begins else fluents.terminate
        act(Fluent(mark.name, mark.arguments), mark.at)
    rules = [
        rule.body
        for file in period.bundle.files
        if file.path.endswith(".rules")
        for rule in parse_rules(file.text)
    ]
    defined = {each.name: len(each.parameters) for each in rules if isinstance(each, FluentRule)}
    return Context(fluents, defined, rates=_Unlimited())
