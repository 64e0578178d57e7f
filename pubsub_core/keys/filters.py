"""Filters that only those can read who may read what they test; and what others can still say about them.

A filter is a conjunction of terms. Each term that tests sealed attributes is sealed under the keys of their groups;
one that tests attributes of several groups, under all of them, one around the other. A broker that cannot open a
term takes it for "everything", so it sends on too much rather than too little.

Pesonen, Eyers and Bacon, Access Control in Decentralised Publish/Subscribe Systems, section IV.A: one subscription
covers another if each of its terms covers a term of the other over the same attributes, and the broker that compares
holds the key. Invariants: what is found to be covered is covered; and the answer is the same whatever a hidden term
says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from authz.errors import UNREADABLE
from authz.predicate import TRUE, And, Predicate, conjuncts, paths
from pubsub_core.keys.errors import CannotOpen
from pubsub_core.keys.opening import open_one
from pubsub_core.keys.plan import Plan
from pubsub_core.keys.ring import KeyRing
from pubsub_core.keys.sealing import Binding, Sealed, Sealer

MAX_TERMS = 64

_encode = msgspec.msgpack.Encoder().encode
_decode_term = msgspec.msgpack.Decoder(Predicate).decode
_decode_sealed = msgspec.msgpack.Decoder(Sealed).decode


class SealedTerm(msgspec.Struct, frozen=True, array_like=True):
    """A term for whoever holds the keys of all these groups."""

    groups: tuple[str, ...]
    sealed: Sealed


class SealedFilter(msgspec.Struct, frozen=True, array_like=True):
    """A filter as it travels: what everyone may know of it, and the rest sealed."""

    binding: Binding
    clear: Predicate = TRUE
    terms: tuple[SealedTerm, ...] = ()


@dataclass(frozen=True, slots=True)
class View:
    """What one broker knows of a filter."""

    known: Predicate
    """The terms it can read: the filter lets nothing through that these do not."""
    hidden: frozenset[tuple[str, ...]] = frozenset()
    """The groups of the terms it cannot read."""


def seal_filter(predicate: Predicate, plan: Plan, sealer: Sealer, binding: Binding) -> SealedFilter:
    """Seal each part of a filter for those who may know it. Raises KeyMissing for an attribute not held here."""
    terms: dict[tuple[str, ...], list[Predicate]] = {}
    for term in conjuncts(predicate):
        terms.setdefault(_groups(term, plan), []).append(term)
    clear = terms.pop((), [])
    sealed = tuple(
        SealedTerm(groups, _seal(_all(parts), groups, sealer, binding))
        for groups, parts in sorted(terms.items())
    )
    return SealedFilter(binding, _all(clear), sealed)


def open_filter(sealed: SealedFilter, plan: Plan, ring: KeyRing, sender: str = "") -> View:
    """As much of a broker's filter as can be read here. What was not rightly sealed reads as what cannot be."""
    # What is said in clear may test only what everyone may read, or whoever lacks a key could route by its attributes.
    known = [term for term in conjuncts(sealed.clear) if not _groups(term, plan)]
    hidden = {groups for term in conjuncts(sealed.clear) if (groups := _groups(term, plan))}
    for term in sealed.terms[:MAX_TERMS]:
        try:
            known.append(_open(term, plan, _Keys(ring, sealed.binding, sender)))
        except CannotOpen:
            hidden.add(term.groups)
    hidden.update(term.groups for term in sealed.terms[MAX_TERMS:])
    return View(_all(known), frozenset(hidden))


def _seal(term: Predicate, groups: tuple[str, ...], sealer: Sealer, binding: Binding) -> Sealed:
    content = _encode(term)
    for group in reversed(groups[1:]):
        content = _encode(sealer.seal_for(group, binding, (content,)))
    return sealer.seal_for(groups[0], binding, (content,))


@dataclass(frozen=True, slots=True)
class _Keys:
    """What it takes to open a filter: keys, what it is bound to, and who has sealed it."""

    ring: KeyRing
    binding: Binding
    sender: str


def _open(term: SealedTerm, plan: Plan, keys: _Keys) -> Predicate:
    """The predicate in a term, if its layers are those it names and it tests nothing else. Raises CannotOpen."""
    try:
        content = _peel(term.sealed, term.groups, plan, keys)
        predicate: Predicate = _decode_term(content)
    except UNREADABLE:
        raise CannotOpen from None
    if _groups(predicate, plan) != term.groups:
        raise CannotOpen
    return predicate


def _peel(sealed: Sealed, groups: tuple[str, ...], plan: Plan, keys: _Keys) -> bytes:
    """What is inside, layer by layer."""
    if not groups or [group for group, _ in sealed.keys] != [groups[0]]:
        raise CannotOpen
    content = open_one(keys.ring, keys.binding, sealed, plan.sizes, keys.sender)
    if len(content) != 1 or not isinstance(content[0], bytes):
        raise CannotOpen
    if len(groups) == 1:
        return content[0]
    return _peel(_decode_sealed(content[0]), groups[1:], plan, keys)


def _groups(term: Predicate, plan: Plan) -> tuple[str, ...]:
    """The key groups of the attributes that a term tests, in order."""
    groups = (plan.group_of.get(attribute) for attribute in attributes(term))
    return tuple(sorted({group.id for group in groups if group is not None}))


def attributes(term: Predicate) -> Iterator[str]:
    """Every attribute that a filter tests."""
    return (str(path.keys[0]) if path.keys else "" for path in paths(term))


def _all(terms: Iterable[Predicate]) -> Predicate:
    flat = tuple(each for term in terms for each in conjuncts(term))
    return flat[0] if len(flat) == 1 else And(flat)
