"""The readable form of capabilities: `parse(unparse(x)) == x`, and an error says its line and column."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path as FilePath
from typing import TypeVar

from lark.visitors import merge_transformers
from msgspec import structs

from authz.errors import InvalidSyntax
from authz.predicate import And, Equal, Exists, Not, Or, Path, Predicate
from authz.predicate.text import WORDS as CONDITION_WORDS
from authz.predicate.text import PredicateReader
from authz.spki.authority import Authority, Grant
from authz.spki.capability import MAX_CHAIN_BYTES, Capability, Certificate
from authz.spki.condition import DAYS, EVERY_DAY, Rate, Window
from authz.spki.resource import Resource
from authz.spki.revocation import Notice
from authz.spki.syntax import UNITS, CapabilityReader, Document, Owned
from authz.spki.validity import format_time
from authz.syntax import Language

_T = TypeVar("_T")
_BARE_PATTERN = re.compile(r'[^\s",#]+( (?!except )[^\s",#]+)*')
_BARE_ATTRIBUTE = re.compile(r"(?!(exists|true|false)$)[A-Za-z_][A-Za-z0-9_]*(-[A-Za-z0-9_]+)*")
_WORDS = CONDITION_WORDS | {
    "KIND": "`network`, `type`, `object`, `resource`",
    "KEY": "a key",
    "TIME": "a time",
    "FLAG": "`yes`, `no`",
    "COUNT": "a number",
    "SIGNATURE": "a signature",
    "HASH": "a hash of 64 characters",
    "PATTERN": "a name",
    "RIGHT": "a right",
    "CLOCK": "a time of day",
    "DAYS": "days",
    "ZONE": "a time zone",
    "UNIT": "`second`, `minute`, `hour`, `day`",
    "NL": "the end of the line",
    "CONTINUED": "an indented line",
}
_LANGUAGE: Language[Document] = Language(
    FilePath(__file__).with_name("capability.lark"),
    "start",
    merge_transformers(CapabilityReader(), text=PredicateReader()),  # type: ignore[no-untyped-call]
    _WORDS,
)


def parse_authority(text: str, source: str = "") -> Authority:
    """Read grants. Raises InvalidSyntax, with `source` as the file's name, as all of these do."""
    return _parse(text, source, Authority, "grants")


def parse_chain(text: str, source: str = "") -> tuple[Certificate, ...]:
    """Read certificates, the owner's first, with a line of three dashes between them. None is verified."""
    chain = _parse(text, source, tuple, "signed certificates")
    if not isinstance(chain[0], Certificate):
        raise _other("signed certificates", source)
    return chain


def parse_owners(text: str, source: str = "") -> Owned:
    """Read the resources that each key owns."""
    owned = _parse(text, source, tuple, "owners")
    if isinstance(owned[0], Certificate):
        raise _other("owners", source)
    return owned


def parse_notice(text: str, source: str = "") -> Notice:
    """Read a revocation list or event, without verifying it."""
    return _parse(text, source, Notice, "a revocation list or event")


def unparse_authority(authority: Authority) -> str:
    return "\n".join(line for grant in authority.grants for line in _grant(grant)) + "\n"


def unparse_capability(capability: Capability) -> str:
    return "\n".join(_capability(capability)) + "\n" + unparse_authority(capability.authority)


def unparse_certificate(certificate: Certificate) -> str:
    """The certificate as it claims to be. Raises MalformedCertificate."""
    signature = base64.b64encode(certificate.signature).decode()
    return f"{unparse_capability(certificate.unverified())}signature: {signature}\n"


def unparse_chain(chain: Iterable[Certificate]) -> str:
    return "---\n".join(map(unparse_certificate, chain))


def unparse_notice(notice: Notice) -> str:
    lines = [f"revoker: {notice.issuer}"]
    lines += [f"number: {notice.number}"] if notice.number else []
    lines += [f"at: {format_time(notice.at)}"]
    for each in notice.revoked:
        until = "" if each.until is None else f" until {format_time(each.until)}"
        lines.append(f"revoked: {each.id.hex()}{until}")
    return "\n".join([*lines, f"signature: {base64.b64encode(notice.signature).decode()}"]) + "\n"


def unparse_window(window: Window) -> str:
    text = f"{window.start // 60:02}:{window.start % 60:02}-{window.end // 60:02}:{window.end % 60:02}"
    if window.days != EVERY_DAY:
        text += " " + ",".join(day for bit, day in enumerate(DAYS) if window.days >> bit & 1)
    return text if window.zone == "UTC" else f"{text} {window.zone}"


def unparse_rate(rate: Rate) -> str:
    unit = next((name for name, seconds in UNITS.items() if seconds == rate.seconds), None)
    return f"{rate.count} per {unit or f'{rate.seconds} seconds'}"


def _parse(text: str, source: str, kind: type[_T], called: str) -> _T:
    if len(text) > MAX_CHAIN_BYTES:
        raise InvalidSyntax(f"the text must be at most {MAX_CHAIN_BYTES} characters long", 1, 1, source)
    document = _LANGUAGE.parse(text + "\n", source)
    if not isinstance(document, kind):
        raise _other(called, source)
    return document


def _other(called: str, source: str) -> InvalidSyntax:
    return InvalidSyntax(f"this can be read, but {called} must stand here", 1, 1, source)


def _capability(capability: Capability) -> Iterator[str]:
    yield f"issuer: {capability.issuer}"
    yield f"subject: {capability.subject}"
    yield f"delegate: {'yes' if capability.delegate else 'no'}"
    validity = capability.validity
    if validity.start:
        yield f"from: {format_time(validity.start)}"
    if validity.end is not None:
        yield f"until: {format_time(validity.end)}"
    for recheck in validity.rechecks:
        yield f"recheck: {recheck.key} within {recheck.seconds} seconds"


def _grant(grant: Grant) -> Iterator[str]:
    yield _resource(grant.resource)
    yield "action: " + ("*" if grant.rights is None else "|".join(sorted(grant.rights)))
    inline = {term: text for term in grant.where if (text := _restriction(term, grant.attributes))}
    if grant.attributes is not None:
        free = grant.attributes - {_subject(term) for term in inline}
        yield "attributes: " + ", ".join(
            sorted([*(_name(each, _BARE_ATTRIBUTE) for each in free), *inline.values()])
        )
    yield from (f"where: {term}" for term in grant.where if term not in inline)
    yield from (f"when: {unparse_window(window)}" for window in sorted(grant.windows))
    yield from (f"rate: {unparse_rate(rate)}" for rate in sorted(grant.rates))


def _resource(resource: Resource) -> str:
    line = f"{resource.kind}: {_name(resource.pattern, _BARE_PATTERN)}"
    if resource.exceptions:
        line += " except " + ", ".join(_name(each, _BARE_PATTERN) for each in sorted(resource.exceptions))
    return line


def _name(name: str, bare: re.Pattern[str]) -> str:
    return name if bare.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _subject(term: Predicate) -> str | None:
    """The attribute of an event that a comparison is about, if that is all it can be written behind."""
    if isinstance(term, And | Or | Not | Exists) or term.path.root != "event" or len(term.path.keys) != 1:
        return None
    name = term.path.keys[0]
    return name if isinstance(name, str) and _BARE_ATTRIBUTE.fullmatch(name) else None


def _restriction(term: Predicate, attributes: frozenset[str] | None) -> str | None:
    """A condition on one of these attributes as the list of attributes has it: `location = "Victoria"`."""
    name = _subject(term)
    if attributes is None or name is None or name not in attributes or isinstance(term, And | Or | Not):
        return None
    text = str(structs.replace(term, path=Path.variable(name)))
    return text.replace(" == ", " = ", 1) if isinstance(term, Equal) and not term.fold else text
