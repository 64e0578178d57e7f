"""What a PDP replica serves: one of five kinds of scope, and how they contain each other.

Any two scopes are either disjoint or one contains the other, so a replica that drops what its other scopes
contain never hears a question twice, and the narrowest scope that holds a question is unique.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from authz import Request
from authz.request import MAX_BYTES
from bus.errors import InvalidScope

DEFAULT_DOMAIN = "default"
MAX_DOMAIN_BYTES = 128
"""Maximum bytes of a domain in UTF-8: with the longest request it still fits a NATS subject."""
MAX_SCOPES = 65_536
"""Maximum scopes known of one announcer. Requests in others are sent on their own subjects."""
EXPIRE_SECONDS = 0.1
"""Minimum seconds between two searches for expired scopes."""

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


_parse = functools.lru_cache(8192)(Scope.parse)


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


def parse_scopes(texts: Iterable[str]) -> list[Scope]:
    """Those of the texts that are scopes: a newer replica may know other kinds."""
    scopes = list[Scope]()
    for text in texts:
        with contextlib.suppress(InvalidScope):
            scopes.append(_parse(text))
    return scopes


def under(prefix: str, path: str) -> bool:
    """Whether the path is the prefix itself or lies below it, by whole segments."""
    return prefix in ("/", path) or path.startswith(prefix + "/")


def widest(scopes: Iterable[Scope]) -> list[Scope]:
    """The scopes without those that another of them contains."""
    given = set(scopes)
    widest_kind = min((scope.kind for scope in given), default=Kind.BROADCAST)
    kept = [scope for scope in given if not any(each in given for each in _wider(scope, widest_kind))]
    return sorted(kept, key=lambda s: (s.kind, len(s.object)))


def _wider(scope: Scope, up_to: Kind = Kind.BROADCAST) -> Iterator[Scope]:
    """Every other scope, of kinds up to the widest given, that contains this one: narrowest first."""
    domain, path = scope.domain, scope.object
    if up_to <= Kind.OBJECT < scope.kind:
        yield Scope(Kind.OBJECT, domain, path)
    if up_to <= Kind.PREFIX < scope.kind:
        yield Scope(Kind.PREFIX, domain, path)
    if up_to <= Kind.PREFIX <= scope.kind:
        while "/" in path and path != "/":
            path = path.rpartition("/")[0] or "/"
            yield Scope(Kind.PREFIX, domain, path)
        if path != "/":
            yield Scope(Kind.PREFIX, domain, "/")
    if up_to <= Kind.DOMAIN < scope.kind:
        yield Scope(Kind.DOMAIN, domain)
    if scope.kind > Kind.BROADCAST:
        yield Scope(Kind.BROADCAST)


def own_scope(domain: str, request: Request) -> Scope:
    """The narrowest scope there is: this very subject, object and action."""
    return Scope(Kind.TUPLE, domain, request.object.id, request.subject.id, request.action.id)


class ScopeTable:
    """The scopes announced lately, as soft state: what is not announced again is forgotten.

    Each is charged to whoever announced it first, and each announcer has a limit of its own. Many replicas with the
    same scopes take no more room than one, and none can take the room of another.
    """

    def __init__(self, limit: int | None = None) -> None:
        """`limit` bounds the scopes of one announcer."""
        self._expiry: dict[Scope, float] = {}
        self._charged: dict[Scope, bytes] = {}
        self._counts: Counter[bytes] = Counter()
        self._limit = MAX_SCOPES if limit is None else limit
        self._tuples = 0
        self._next_expiry = float("-inf")
        self.version = 0
        """Changes whenever the set of scopes does."""

    def announce(self, scopes: Iterable[Scope], now: float, ttl: float, announcer: bytes = b"") -> None:
        """Know these scopes for `ttl` seconds, or longer if somebody said so. Those beyond the limit are not known."""
        until = now + ttl
        self._next_expiry = min(self._next_expiry, until)
        for scope in scopes:
            known = self._expiry.get(scope)
            if known is None and not self._charge(scope, announcer):
                continue
            if known is None or known < until:
                self._expiry[scope] = until

    def _charge(self, scope: Scope, announcer: bytes) -> bool:
        if self._counts[announcer] >= self._limit:
            return False
        self._counts[announcer] += 1
        self._charged[scope] = announcer
        self._tuples += scope.kind is Kind.TUPLE
        self.version += 1
        return True

    def expire(self, now: float) -> None:
        """Forget what was not announced again. It looks through all scopes at most once in a while."""
        if now < self._next_expiry:
            return
        for scope in [s for s, expiry in self._expiry.items() if expiry <= now]:
            self.withdraw(scope)
        self._next_expiry = max(now + EXPIRE_SECONDS, min(self._expiry.values(), default=0.0))

    def withdraw(self, scope: Scope) -> None:
        """Forget a scope at once: nobody listens there any more."""
        if self._expiry.pop(scope, None) is not None:
            announcer = self._charged.pop(scope)
            self._counts[announcer] -= 1
            if not self._counts[announcer]:
                del self._counts[announcer]
            self.version += 1
            self._tuples -= scope.kind is Kind.TUPLE

    def retract(self, scopes: Iterable[Scope], announcer: bytes) -> list[Scope]:
        """Forget those of the scopes that are charged to whoever withdraws them; returns these."""
        retracted = [scope for scope in scopes if self._charged.get(scope) == announcer]
        for scope in retracted:
            self.withdraw(scope)
        return retracted

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
        own = own_scope(domain, request)
        return next((each for each in (own, *_wider(own)) if each in self._expiry), None)
