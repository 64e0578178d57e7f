"""Capabilities as commands show them: to people as text and tables, to programs as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from authz import PublicKey
from authz.errors import InvalidSignature
from authz.spki import Capability, Certificate, ChainRefused, Grant, Notice
from authz.spki.text import unparse_certificate, unparse_rate, unparse_window
from authz.spki.validity import format_time


def describe(capability: Capability) -> dict[str, object]:
    """A capability for programs."""
    validity = capability.validity
    return {
        "issuer": str(capability.issuer),
        "subject": str(capability.subject),
        "delegate": capability.delegate,
        "from": format_time(validity.start),
        "until": None if validity.end is None else format_time(validity.end),
        "rechecks": [{"key": str(each.key), "seconds": each.seconds} for each in validity.rechecks],
        "grants": [_describe_grant(grant) for grant in capability.authority.grants],
    }


def describe_certificate(certificate: Certificate) -> dict[str, object]:
    """A certificate for programs: what it claims, and whether its signature holds."""
    capability = describe(certificate.unverified())
    return {"id": certificate.id.hex(), "signature": signature_of(certificate), **capability}


def describe_member(certificate: Certificate) -> dict[str, object]:
    """Whom a domain's certificate lets in, for programs."""
    capability = certificate.unverified()
    end = capability.validity.end
    return {
        "key": str(capability.subject),
        "until": "ever" if end is None else format_time(end),
        "delegate": capability.delegate,
    }


def describe_notice(notice: Notice) -> dict[str, object]:
    """A revocation list or event for programs."""
    return {
        "signature": signature_of(notice),
        "revoker": str(notice.issuer),
        "number": notice.number,
        "at": format_time(notice.at),
        "revoked": [each.id.hex() for each in notice.revoked],
    }


def _describe_grant(grant: Grant) -> dict[str, object]:
    return {
        "kind": grant.resource.kind,
        "pattern": grant.resource.pattern,
        "except": sorted(grant.resource.exceptions),
        "rights": ["*"] if grant.rights is None else sorted(grant.rights),
        "attributes": ["*"] if grant.attributes is None else sorted(grant.attributes),
        "where": [str(term) for term in grant.where],
        "when": [unparse_window(window) for window in sorted(grant.windows)],
        "rates": [unparse_rate(rate) for rate in sorted(grant.rates)],
    }


def signature_of(signed: Certificate | Notice) -> str:
    """Whether a signature holds, in a word or two."""
    try:
        signed.verify() if isinstance(signed, Notice) else signed.open()
    except InvalidSignature:
        return "not valid"
    return "good"


def text_of(certificate: Certificate) -> str:
    """A certificate for people, with its hash and the state of its signature above it."""
    heading = f"# {certificate.id.hex()}\n# signature: {signature_of(certificate)}\n"
    return heading + unparse_certificate(certificate)


LINK = ("link", "from", "to", "passes on", "until", "state")


def rows_of(chain: Sequence[Certificate], failure: ChainRefused | None) -> Iterator[tuple[str, ...]]:
    """A chain link by link, as LINK names it, and the link at which it fails, if it does."""
    for number, certificate in enumerate(chain, start=1):
        capability = certificate.unverified()
        end = capability.validity.end
        yield (
            str(number),
            _short(capability.issuer),
            _short(capability.subject),
            "yes" if capability.delegate else "no",
            "ever" if end is None else format_time(end),
            _state(number, failure),
        )


def _short(key: PublicKey) -> str:
    return f"{str(key)[:8]}…"


def _state(number: int, failure: ChainRefused | None) -> str:
    if failure is None or number < failure.link:
        return "[green]sound[/]"
    return f"[red]{failure.fault}[/]" if number == failure.link else "[dim]not reached[/]"
