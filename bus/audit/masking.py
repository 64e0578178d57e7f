"""What of recorded decisions stays in the process that gave them: attributes that configuration names.

A PDP signs the hash of the whole question and answer. A masked record keeps that hash beside what it shows, so that it
can be matched with what was signed. Against those who would find a hidden value by hashing each that it could be,
questions with such values are asked with a salt that only their asker knows. Where roles are hidden, all questions are:
a PDP signs those that it has looked up.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache

import msgspec
from msgspec.structs import replace

from authz import Decision, Entity, InvalidRequest, Reason, Request
from authz.authority import decision_hash
from authz.predicate.terms import Literal, Relate
from authz.request import Attributes

MASKED = "***"
"""What stands in records for a value that is hidden."""
SALT = "audit_salt"
"""The attribute of the context that holds the salt."""
MAX_DEPTH = 32
"""Maximum levels of a value that are looked into; what lies deeper is hidden."""
_PATTERN = re.compile(r"(subject|object|action|context|\*)\..+", re.DOTALL)
_ROLES = "subject.roles"
_encode = msgspec.msgpack.Encoder(order="deterministic").encode


class Mask:
    """Hides the attributes that fit a pattern, such as `subject.salary` or `context.*`, and what was made of them."""

    def __init__(self, patterns: Sequence[str]) -> None:
        """Raises InvalidRequest for a pattern that could fit no attribute."""
        for each in patterns:
            if not _PATTERN.fullmatch(each):
                raise InvalidRequest(
                    "mask", f"`{each}` fits no attribute: write `subject.salary` or `context.*`"
                )
        self._patterns = tuple(patterns)
        self._parts = frozenset(each.partition(".")[0] for each in patterns)
        self._secret = secrets.token_bytes(32)
        self._fits = lru_cache(4096)(self._fits_any)
        self._hides_roles = self._fits(_ROLES)

    def salted(self, request: Request) -> Request:
        """The question as PDPs are asked it: with a salt, the same each time, if it or its answer is to be hidden."""
        if not self._hides_roles and self._masked(request)[0] is request:
            return request
        salt = hashlib.blake2b(_encode(request), digest_size=16, key=self._secret).hexdigest()
        return replace(request, context={**request.context, SALT: salt})

    def hide(self, request: Request, decision: Decision) -> tuple[Request, Decision, bytes]:
        """What is recorded, and the hash of the whole if that is another and a PDP may have signed it."""
        shown, hidden = self._masked(request)
        said = self._without(decision, hidden)
        signed = decision.decided and decision.inferred is None
        if not signed or (shown is request and said is decision and not self._hides_roles):
            return shown, said, b""
        return shown, said, decision_hash(self.salted(request), decision)

    def _masked(self, request: Request) -> tuple[Request, list[object]]:
        """The request without hidden values, and those; the same request if it has none."""
        hidden: list[object] = []
        if request.is_plain():
            return request, hidden
        subject = self._entity("subject", request.subject, hidden)
        thing = self._entity("object", request.object, hidden)
        action = self._entity("action", request.action, hidden)
        context = self._attributes("context", request.context, hidden)
        return (Request(subject, thing, action, context), hidden) if hidden else (request, hidden)

    def _entity(self, name: str, entity: Entity, hidden: list[object]) -> Entity:
        return Entity(entity.id, self._attributes(name, entity.attributes, hidden))

    def _attributes(
        self, path: str, attributes: Attributes, hidden: list[object], depth: int = MAX_DEPTH
    ) -> Attributes:
        return {
            name: self._value(f"{path}.{name}", value, hidden, depth) for name, value in attributes.items()
        }

    def _value(self, path: str, value: object, hidden: list[object], depth: int) -> object:
        nested = isinstance(value, (dict, list, tuple))
        if self._fits(path) or (nested and not depth):
            hidden.append(value)
            return MASKED
        if isinstance(value, dict):
            return self._attributes(path, value, hidden, depth - 1)
        if isinstance(value, (list, tuple)):
            return [self._value(path, each, hidden, depth - 1) for each in value]
        return value

    def _without(self, decision: Decision, hidden: Iterable[object]) -> Decision:
        """The decision without what may tell of attributes, also of those that only the PDP knew."""
        quoted = decision.decided or decision.reason is Reason.INVALID_REQUEST
        if quoted and decision.detail:
            decision = replace(decision, detail="")
        if decision.certificate and any(map(self._tells, decision.certificate)):
            decision = replace(decision, certificate=None)
        if decision.roles is not None and self._hides_roles:
            decision = replace(decision, roles=None)
        texts = {each for value in hidden for each in _texts(value)}
        if decision.obligations and texts:
            obligations = tuple(_obligation(each, texts) for each in decision.obligations)
            if obligations != decision.obligations:
                decision = replace(decision, obligations=obligations)
        return decision

    def _tells(self, literal: Literal) -> bool:
        """Whether a literal is about an attribute of a part that has hidden ones; names are not hidden."""
        comparison = literal.comparison
        places = [comparison.path, *([comparison.other] if isinstance(comparison, Relate) else [])]
        return any(each.keys and ("*" in self._parts or each.root in ("", *self._parts)) for each in places)

    def _fits_any(self, path: str) -> bool:
        return any(fnmatchcase(path, each) for each in self._patterns)


def _obligation(obligation: dict[str, object], texts: Iterable[str]) -> dict[str, object]:
    """An obligation, masked whole if one of the texts is in it."""
    said = json.dumps(obligation, ensure_ascii=False)
    return dict.fromkeys(obligation, MASKED) if any(each in said for each in texts) else obligation


def _texts(value: object) -> Iterable[str]:
    """How the values in a value are written in JSON, without quotes; true, false, null and nothing tell too little."""
    left = [value]
    while left:  # and no recursion: a hidden value may be nested deeply
        value = left.pop()
        if isinstance(value, dict):
            left += value.values()
        elif isinstance(value, (list, tuple)):
            left += value
        elif isinstance(value, str):
            if value:
                yield json.dumps(value, ensure_ascii=False)[1:-1]
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            yield json.dumps(value)
