"""What a PDP replica serves: one of five kinds of scope, and how they contain each other.

Any two scopes are either disjoint or one contains the other, so a replica that drops what its other scopes
contain never hears a question twice, and the narrowest scope that holds a question is unique.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from authz import Request
from authz.request import MAX_BYTES
from bus.errors import InvalidScope

DEFAULT_DOMAIN = "default"
MAX_DOMAIN_BYTES = 128
"""The longest domain, in bytes of UTF-8: with the longest request it still fits a NATS subject."""

_MARKS = re.compile("[%,:]")
_ESCAPED = re.compile("%(25|2C|3A)")


class Kind(enum.IntEnum):
    """The five subscription strategies, widest first."""

    BROADCAST = 0
    DOMAIN = 1
    PREFIX = 2
    OBJECT = 3
    TUPLE = 4


@dataclass(frozen=True, slots=True)
class Scope:
    """A set of requests, named by domain, object (or the prefix of objects), subject and action."""

    kind: Kind
    domain: str = ""
    object: str = ""
    subject: str = ""
    action: str = ""

    @classmethod
    def parse(cls, text: str, domain: str = DEFAULT_DOMAIN) -> Scope:
        """Read `broadcast`, `domain:NAME`, `prefix:/PATH`, `object:NAME` or `tuple:SUBJECT,OBJECT,ACTION`.

        Prefixes, objects and tuples lie in the domain given, or in the one named as in `prefix@shop:/orders`. In
        domains, subjects and actions `%2C`, `%3A` and `%25` stand for comma, colon and per cent.
        """
        head, colon, rest = text.partition(":")
        word, _, named = head.partition("@")
        scope = None
        if word == "broadcast" and not colon and not named:
            scope = cls(Kind.BROADCAST)
        elif word == "domain" and not named and rest:
            scope = cls(Kind.DOMAIN, _unescape(rest))
        elif rest:
            scope = cls._below(word, _unescape(named) or domain, rest)
        if scope is None:
            raise InvalidScope(
                f"`{text}` is not a scope: use broadcast, domain:NAME, prefix:/PATH, object:NAME or"
                " tuple:SUBJECT,OBJECT,ACTION"
            )
        scope._check()
        return scope

    @classmethod
    def _below(cls, word: str, domain: str, rest: str) -> Scope | None:
        """The scopes that lie in a domain."""
        match word:
            case "prefix":
                return cls(Kind.PREFIX, domain, rest.rstrip("/") or "/")
            case "object":
                return cls(Kind.OBJECT, domain, rest)
            case "tuple":
                subject, _, middle = rest.partition(",")
                thing, _, action = middle.rpartition(",")
                if subject and thing and action:
                    return cls(Kind.TUPLE, domain, thing, _unescape(subject), _unescape(action))
        return None

    def _check(self) -> None:
        """Raise InvalidScope for names that no request can have."""
        if self.kind is not Kind.BROADCAST:
            check_domain(self.domain)
        for field, limit in MAX_BYTES.items():
            _check_name(field, getattr(self, field), limit)

    def __str__(self) -> str:
        domain = _escape(self.domain)
        match self.kind:
            case Kind.BROADCAST:
                return "broadcast"
            case Kind.DOMAIN:
                return f"domain:{domain}"
            case Kind.PREFIX:
                return f"prefix@{domain}:{self.object}"
            case Kind.OBJECT:
                return f"object@{domain}:{self.object}"
            case Kind.TUPLE:
                return f"tuple@{domain}:{_escape(self.subject)},{self.object},{_escape(self.action)}"

    def contains(self, other: Scope) -> bool:
        """Whether whoever serves this scope can answer everything in the other."""
        if self.kind is Kind.BROADCAST:
            return True
        if self.kind > other.kind or self.domain != other.domain:
            return False
        if self.kind is Kind.DOMAIN:
            return True
        if self.kind is Kind.PREFIX:
            return under(self.object, other.object)
        return self.object == other.object and (self.kind is Kind.OBJECT or self == other)


def check_domain(name: str) -> None:
    """Raise InvalidScope unless this can be a domain's name."""
    if not name:
        raise InvalidScope("a domain must have a name")
    _check_name("domain", name, MAX_DOMAIN_BYTES)


def _check_name(field: str, name: str, limit: int) -> None:
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise InvalidScope(f"`{name!a}` cannot be a scope's {field}: it must be Unicode text") from None
    if size > limit:
        raise InvalidScope(f"`{name}` cannot be a scope's {field}: it must be at most {limit} bytes long")


def _escape(name: str) -> str:
    return _MARKS.sub(lambda mark: f"%{ord(mark[0]):02X}", name)


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda mark: chr(int(mark[1], 16)), text)


def under(prefix: str, path: str) -> bool:
    """Whether the path is the prefix itself or lies below it, by whole segments."""
    return prefix in ("/", path) or path.startswith(prefix + "/")


def widest(scopes: Iterable[Scope]) -> list[Scope]:
    """The scopes without those that another of them contains."""
    kept: list[Scope] = []
    for scope in sorted(set(scopes), key=lambda s: (s.kind, len(s.object))):
        if not any(other.contains(scope) for other in kept):
            kept.append(scope)
    return kept


def own_scope(domain: str, request: Request) -> Scope:
    """The narrowest scope there is: this very subject, object and action."""
    return Scope(Kind.TUPLE, domain, request.object.id, request.subject.id, request.action.id)


class ScopeTable:
    """The scopes announced lately, as soft state: what is not announced again is forgotten."""

    def __init__(self, limit: int = 4096) -> None:
        self._expiry: dict[Scope, float] = {}
        self._limit = limit
        self._tuples = 0
        self.version = 0
        """Changes whenever the set of scopes does."""

    def announce(self, scopes: Iterable[Scope], now: float, ttl: float) -> None:
        for scope in scopes:
            if scope not in self._expiry:
                if len(self._expiry) >= self._limit:
                    continue
                self.version += 1
                self._tuples += scope.kind is Kind.TUPLE
            self._expiry[scope] = now + ttl

    def expire(self, now: float) -> None:
        for scope in [s for s, expiry in self._expiry.items() if expiry <= now]:
            self.withdraw(scope)

    def withdraw(self, scope: Scope) -> None:
        """Forget a scope at once: nobody listens there any more."""
        if self._expiry.pop(scope, None) is not None:
            self.version += 1
            self._tuples -= scope.kind is Kind.TUPLE

    @property
    def has_tuples(self) -> bool:
        return self._tuples > 0

    def __iter__(self) -> Iterator[Scope]:
        return iter(list(self._expiry))

    def __len__(self) -> int:
        return len(self._expiry)

    def __contains__(self, scope: Scope) -> bool:
        return scope in self._expiry

    def narrowest(self, domain: str, request: Request) -> Scope | None:
        """The narrowest announced scope that holds the request."""
        known = self._expiry
        thing = request.object.id
        if (own := own_scope(domain, request)) in known:
            return own
        if (scope := Scope(Kind.OBJECT, domain, thing)) in known:
            return scope
        path = thing
        while True:
            if (scope := Scope(Kind.PREFIX, domain, path)) in known:
                return scope
            if "/" not in path or path == "/":
                break
            path = path.rpartition("/")[0] or "/"
        for scope in (Scope(Kind.PREFIX, domain, "/"), Scope(Kind.DOMAIN, domain), Scope(Kind.BROADCAST)):
            if scope in known:
                return scope
        return None
