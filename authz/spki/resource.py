"""What a right is over: a network, event types or objects, named exactly or by a prefix."""

from __future__ import annotations

import enum
from typing import Self

import msgspec

from authz.spki.errors import InvalidCapability

MAX_NAME_BYTES = 1024


class Right(enum.StrEnum):
    """What may be done. Each right belongs to one kind of resource."""

    CONNECT = "connect"
    INSTALL = "install"
    CARRY = "carry"
    PROVIDE = "provide"
    AUDIT = "audit"
    DEFINE = "define"
    EXTEND = "extend"
    ADD_ATTRIBUTE = "addAttribute"
    REMOVE_ATTRIBUTE = "removeAttribute"
    EDIT_ATTRIBUTE_NAME = "editAttributeName"
    EDIT_ATTRIBUTE_TYPE = "editAttributeType"
    PUBLISH = "publish"
    SUBSCRIBE = "subscribe"
    REPLAY = "replay"
    DECIDE = "decide"

    @property
    def kind(self) -> Kind:
        return _KIND[self]


class Kind(enum.StrEnum):
    """The kinds of resource; `ANY` stands in blanket authority only, together with the pattern `*`."""

    NETWORK = "network"
    TYPE = "type"
    OBJECT = "object"
    ANY = "resource"

    @property
    def rights(self) -> frozenset[Right]:
        return _RIGHTS[self]

    @property
    def separator(self) -> str:
        return "/" if self is Kind.OBJECT else "."


_KIND = {
    Right.CONNECT: Kind.NETWORK,
    Right.INSTALL: Kind.NETWORK,
    Right.CARRY: Kind.NETWORK,
    Right.PROVIDE: Kind.NETWORK,
    Right.AUDIT: Kind.NETWORK,
    Right.DEFINE: Kind.TYPE,
    Right.EXTEND: Kind.TYPE,
    Right.ADD_ATTRIBUTE: Kind.TYPE,
    Right.REMOVE_ATTRIBUTE: Kind.TYPE,
    Right.EDIT_ATTRIBUTE_NAME: Kind.TYPE,
    Right.EDIT_ATTRIBUTE_TYPE: Kind.TYPE,
    Right.PUBLISH: Kind.TYPE,
    Right.SUBSCRIBE: Kind.TYPE,
    Right.REPLAY: Kind.TYPE,
    Right.DECIDE: Kind.OBJECT,
}
_RIGHTS = {
    each: frozenset(right for right, kind in _KIND.items() if each in (kind, Kind.ANY)) for each in Kind
}


class Resource(msgspec.Struct, frozen=True, array_like=True):
    """The resources of one kind that match a pattern and none of its exceptions.

    A pattern is a whole name, or a prefix: `*`, or a name up to a separator and then `*`. A prefix longer
    than `*`, and one with exceptions, matches only names without empty, `.` or `..` segments, so that no
    spelling of a path steps around it.
    """

    kind: Kind
    pattern: str
    exceptions: frozenset[str] = frozenset()
    """Patterns below this one, none of them below another."""

    def __post_init__(self) -> None:
        for pattern in (self.pattern, *self.exceptions):
            _check(self.kind, pattern)
        if self.kind is Kind.ANY and (self.pattern != "*" or self.exceptions):
            raise InvalidCapability("resource", "must be `*`: name a network, type or object to say more")
        if self.exceptions != self._relevant(self.exceptions) or self.pattern in self.exceptions:
            raise InvalidCapability(
                self.kind, "each exception must lie below the pattern, and below no other exception"
            )

    @classmethod
    def of(cls, kind: Kind, pattern: str, *exceptions: str) -> Self:
        return cls(kind, pattern, frozenset(exceptions))

    def intersect(self, other: Resource) -> Resource | None:
        """What both match: the longer pattern if it lies below the shorter, less all exceptions."""
        if Kind.ANY in (self.kind, other.kind):
            return other if self.kind is Kind.ANY else self
        if self.kind is not other.kind:
            return None
        narrow, wide = (self, other) if self._below(self.pattern, other.pattern) else (other, self)
        exceptions = self.exceptions | other.exceptions
        if not self._below(narrow.pattern, wide.pattern):
            return None
        if any(self._below(narrow.pattern, exception) for exception in exceptions):
            return None
        if not narrow.pattern.endswith("*") and not wide.matches(self.kind, narrow.pattern):
            return None
        return Resource(self.kind, narrow.pattern, narrow._relevant(exceptions))

    def less(self, *patterns: str) -> Resource:
        """The same but for what these patterns match, as far as they lie below this one."""
        below = frozenset(pattern for pattern in patterns if pattern != self.pattern)
        return Resource(self.kind, self.pattern, self._relevant(below))

    def matches(self, kind: Kind, name: str) -> bool:
        """Whether this one resource is among these."""
        if self.kind is Kind.ANY:
            return True
        if kind is not self.kind or not _match(kind, self.pattern, name):
            return False
        if not self.exceptions or name == self.pattern:
            return True
        return _plain(kind, name) and not any(_match(kind, exception, name) for exception in self.exceptions)

    def _relevant(self, exceptions: frozenset[str]) -> frozenset[str]:
        below = [e for e in exceptions if self._below(e, self.pattern)]
        return frozenset(e for e in below if not any(e != other and self._below(e, other) for other in below))

    def _below(self, inner: str, outer: str) -> bool:
        """Whether whatever the pattern `inner` matches, `outer` matches too."""
        if inner.endswith("*"):
            return outer.endswith("*") and inner.startswith(outer[:-1])
        return _match(self.kind, outer, inner)


def _match(kind: Kind, pattern: str, name: str) -> bool:
    if not pattern.endswith("*"):
        return name == pattern
    return pattern == "*" or (name.startswith(pattern[:-1]) and _plain(kind, name))


def _plain(kind: Kind, name: str) -> bool:
    """Whether a name has one spelling only: no segment is empty or stands for another place."""
    body = name.removeprefix("/") if kind is Kind.OBJECT else name
    return all(segment not in ("", ".", "..") for segment in body.split(kind.separator))


def _check(kind: Kind, pattern: str) -> None:
    if not pattern or not pattern.isprintable() or pattern != pattern.strip():
        raise InvalidCapability(kind, f"{pattern!r} must be printable text without spaces at its ends")
    if len(pattern.encode()) > MAX_NAME_BYTES:
        raise InvalidCapability(kind, f"a name must be at most {MAX_NAME_BYTES} bytes long")
    if "*" in pattern[:-1]:
        raise InvalidCapability(kind, f"`{pattern}` must have its `*` at the end")
    if pattern.endswith("*") and pattern != "*":
        stem, separator = pattern[:-1], kind.separator
        if not stem.endswith(separator):
            raise InvalidCapability(kind, f"`{pattern}` must have a `{separator}` before its `*`")
        if stem != "/" and not _plain(kind, stem[:-1]):
            raise InvalidCapability(kind, f"`{pattern}` must not have empty, `.` or `..` segments")
