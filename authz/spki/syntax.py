"""From the text of capabilities to values: what each phrase of the grammar stands for.

Whatever is wrong is reported where it stands: an error about a value carries the line and column of its word.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import NamedTuple, TypeAlias

from lark import Token, Transformer, v_args
from lark.tree import Meta

from authz.crypto import PublicKey
from authz.errors import AuthFabricError, InvalidPredicate, InvalidSyntax
from authz.predicate import Equal, Path, Predicate, Scalar, paths
from authz.spki.authority import Authority, Grant
from authz.spki.capability import SIGNATURE_BYTES, Capability, Certificate, encode
from authz.spki.condition import DAYS, EVERY_DAY, Rate, Window
from authz.spki.content import about_events
from authz.spki.errors import InvalidCapability, printable
from authz.spki.resource import Kind, Resource, Right
from authz.spki.revocation import Notice, Revoked
from authz.spki.validity import TIME, Recheck, Validity
from authz.syntax import constant, place

UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}
_DIGITS = 18

Owned: TypeAlias = tuple[tuple[Resource, PublicKey], ...]
Document: TypeAlias = Authority | tuple[Certificate, ...] | Owned | Notice
"""All that can be written."""


class _Parties(NamedTuple):
    issuer: PublicKey
    subject: PublicKey
    delegate: bool


class _Place(NamedTuple):
    """The line of a resource, and the word it begins with."""

    word: Token
    resource: Resource


class _Clause(NamedTuple):
    """Another line of a grant: the word it begins with, and what it adds."""

    word: Token
    rights: frozenset[Right] | None = None
    attributes: frozenset[str] | None = None
    where: tuple[Predicate, ...] = ()
    conditions: tuple[Window | Rate, ...] = ()


class _Restricted(NamedTuple):
    """An attribute in the list, with the condition on it."""

    name: str
    condition: Predicate


@contextmanager
def _at(token: Token) -> Iterator[None]:
    """Report what is wrong with a value where it stands."""
    try:
        yield
    except InvalidCapability as error:
        raise _wrong(token, error.problem) from error
    except InvalidSyntax:
        raise
    except AuthFabricError as error:
        raise _wrong(token, str(error)) from error


def _wrong(token: Token, problem: str) -> InvalidSyntax:
    return InvalidSyntax(printable(problem), *place(token))


@v_args(inline=True)
class CapabilityReader(Transformer[Token, Document]):
    """From parse tree to values, bottom up."""

    def chain(self, *signed: Certificate) -> tuple[Certificate, ...]:
        return signed

    def signed(self, capability: Capability, signature: bytes) -> Certificate:
        return Certificate(encode(capability), signature)

    def signature(self, token: Token) -> bytes:
        try:
            signature = base64.b64decode(token, validate=True)
        except ValueError:
            raise _wrong(token, "a signature must be base64 text") from None
        if len(signature) != SIGNATURE_BYTES:
            raise _wrong(token, f"a signature must have {SIGNATURE_BYTES} bytes")
        return signature

    def notice(
        self,
        revoker: PublicKey,
        number: Token | None,
        at: Token,
        revoked: tuple[Revoked, ...],
        signature: bytes,
    ) -> Notice:
        with _at(at):
            return Notice(revoker, _time(at), revoked, _count(number) if number else None, signature)

    def all_revoked(self, *revoked: Revoked) -> tuple[Revoked, ...]:
        return tuple(sorted(revoked, key=lambda each: each.id))

    def revoked(self, hash_: Token, until: Token | None) -> Revoked:
        with _at(hash_):
            return Revoked(bytes.fromhex(hash_), _time(until) if until else None)

    def capability(self, parties: _Parties, validity: Validity, authority: Authority) -> Capability:
        return Capability(*parties, authority, validity)

    def parties(self, issuer: PublicKey, subject: PublicKey, delegate: Token | None) -> _Parties:
        return _Parties(issuer, subject, delegate == "yes")

    def validity(self, start: Token | None, end: Token | None, *rechecks: Recheck) -> Validity:
        first, last = _time(start) if start else 0, _time(end) if end else None
        if end and last is not None and last <= first:
            raise _wrong(end, f"`{end}` must be later than the start")
        validity = Validity(first, last)
        for recheck in rechecks:
            validity = validity.intersect(Validity(rechecks=(recheck,))) or validity
        return validity

    def recheck(self, key: PublicKey, seconds: Token) -> Recheck:
        with _at(seconds):
            return Recheck(key, _count(seconds))

    def owners(self, *owned: Owned) -> Owned:
        return tuple(entry for entries in owned for entry in entries)

    def owner(self, key: PublicKey, *places: _Place) -> Owned:
        return tuple((each.resource, key) for each in places)

    def key(self, token: Token) -> PublicKey:
        with _at(token):
            return PublicKey.parse(token)

    def authority(self, *grants: tuple[Token, Grant]) -> Authority:
        last, _ = grants[-1]
        with _at(last):
            return Authority.of(*(grant for _, grant in grants))

    def grant(self, head: _Place, *clauses: _Clause) -> tuple[Token, Grant]:
        words = {str(clause.word): clause.word for clause in clauses}
        for clause in clauses:
            if clause.word in ("action", "attributes") and words[clause.word] is not clause.word:
                raise _wrong(words[clause.word], f"`{clause.word}` must stand once for each resource")
        if "action" not in words:
            raise _wrong(head.word, f"`{head.word}` must be followed by `action`")
        try:
            return head.word, _join(head.resource, clauses)
        except InvalidCapability as error:
            raise _wrong(words.get(error.field, head.word), error.problem) from error
        except InvalidPredicate as error:
            raise _wrong(words.get("where", head.word), str(error)) from error

    def resource(self, kind: Token, pattern: str, *exceptions: str) -> _Place:
        with _at(kind):
            return _Place(kind, Resource.of(Kind(kind), pattern, *exceptions))

    def pattern(self, token: Token) -> str:
        return str(constant(token) if token.type == "STRING" else token)

    attribute_name = pattern

    def action(self, word: Token, *rights: Token) -> _Clause:
        return _Clause(word, None if rights[0] == "*" else frozenset(map(_right, rights)))

    def attributes(self, word: Token, *items: Token | str | _Restricted) -> _Clause:
        if isinstance(items[0], Token):  # the star
            return _Clause(word)
        names = frozenset(item.name if isinstance(item, _Restricted) else str(item) for item in items)
        return _Clause(word, None, names, tuple(i.condition for i in items if isinstance(i, _Restricted)))

    def forced(self, name: str, value: Scalar) -> _Restricted:
        return _Restricted(name, Equal(Path("event", (name,)), value))

    @v_args(meta=True, inline=True)
    def restricted(self, meta: Meta, condition: Predicate) -> _Restricted:
        names = {path.keys[0] for path in paths(condition) if not path.root}
        if len(names) != 1:
            problem = f"`{condition}` must restrict one attribute, written by its bare name"
            raise InvalidSyntax(printable(problem), meta.line, meta.column)
        return _Restricted(str(names.pop()), about_events(condition))

    def value(self, token: Token) -> Scalar:
        return constant(token)

    def where(self, word: Token, predicate: Predicate) -> _Clause:
        return _Clause(word, where=(about_events(predicate),))

    def when(self, word: Token, start: Token, end: Token, days: Token | None, zone: Token | None) -> _Clause:
        with _at(word):
            window = Window(
                _minute(start), _minute(end), _days(days) if days else EVERY_DAY, str(zone or "UTC")
            )
        return _Clause(word, conditions=(window,))

    def rate(self, word: Token, count: Token, period: Token) -> _Clause:
        with _at(word):
            return _Clause(word, conditions=(Rate(_count(count), UNITS.get(period) or _count(period)),))


def _join(resource: Resource, clauses: tuple[_Clause, ...]) -> Grant:
    return Grant.of(
        resource,
        next((clause.rights for clause in clauses if clause.rights is not None), None),
        next((clause.attributes for clause in clauses if clause.attributes is not None), None),
        [term for clause in clauses for term in clause.where],
        [condition for clause in clauses for condition in clause.conditions],
    )


def parse_time(text: str) -> int:
    """Unix time, from how it is written everywhere here. Raises InvalidCapability."""
    try:
        return int(datetime.strptime(text, TIME).replace(tzinfo=UTC).timestamp())
    except ValueError:
        raise InvalidCapability("time", f"`{text}` must be a time such as `2030-01-31T23:59:59Z`") from None


def _time(token: Token) -> int:
    with _at(token):
        return parse_time(token)


def _count(token: Token) -> int:
    if len(token) > _DIGITS:
        raise _wrong(token, f"`{token}` must be a number of at most {_DIGITS} digits")
    return int(token)


def _right(token: Token) -> Right:
    try:
        return Right(token)
    except ValueError:
        known = ", ".join(f"`{right}`" for right in Right)
        raise _wrong(token, f"`{token}` must be `*` or one of {known}") from None


def _minute(token: Token) -> int:
    hours, minutes = int(token[:2]), int(token[3:])
    if minutes > 59:
        raise _wrong(token, f"`{token}` must be a time of day such as `17:30`")
    return hours * 60 + minutes


def _days(token: Token) -> int:
    """The bits of days written as `mon-fri,sun`; a range may run over the end of the week."""
    days = 0
    for part in token.split(","):
        first, _, last = part.partition("-")
        try:
            start, end = DAYS.index(first), DAYS.index(last or first)
        except ValueError:
            raise _wrong(token, f"`{part}` must be days such as `mon` or `mon-fri`") from None
        for day in range(start, end + 1 if end >= start else end + 1 + len(DAYS)):
            days |= 1 << day % len(DAYS)
    return days
