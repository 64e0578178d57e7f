"""From a chain of certificates to the one capability it proves.

SPKI certificate theory (RFC 2693, section 6): two 5-tuples reduce to one,

    <I1,S1,D1,A1,V1> + <I2,S2,D2,A2,V2> = <I1,S2,D2,A1 and A2,V1 and V2>    if S1 = I2 and D1

unless an intersection is empty. A chain starts from what the owner holds, so the owner's first grant is
narrowed to what it owns by the same rule. Invariant: the result permits nothing that one of its links does
not permit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf

from authz.crypto import PublicKey
from authz.errors import InvalidSignature
from authz.spki.capability import Capability, Certificate
from authz.spki.errors import (
    ChainRefused,
    Fault,
    InvalidCapability,
    MalformedCertificate,
    RevocationUnknown,
)
from authz.spki.ownership import Owners
from authz.spki.resource import Right
from authz.spki.revocation import Revocations, key_id
from authz.spki.validity import Validity, format_time

MAX_LINKS = 32


@dataclass(frozen=True, slots=True)
class Link:
    """What must be watched of one certificate for as long as its chain is relied on."""

    ids: tuple[bytes, ...]
    """What it is taken back by: its own id, and that of the key that it empowers."""
    validity: Validity
    revokers: tuple[PublicKey, ...]
    """The keys that can take it back: its issuer, and those it names for rechecks."""

    def check(self, number: int, at: float, revocations: Revocations) -> None:
        """Raise ChainRefused, with this number, if it is not valid now or was taken back."""
        _check_time(number, self.validity, at)
        revoker = revocations.revoker(self.ids, self.revokers)
        if revoker is not None:
            raise ChainRefused(number, Fault.REVOKED, f"was revoked by `{revoker}`")
        for recheck in self.validity.rechecks:
            age = revocations.age(recheck.key, at)
            if age is None or age > recheck.seconds:
                problem = (
                    f"needs a revocation list of `{recheck.key}` that is at most {recheck.seconds} s old"
                )
                raise RevocationUnknown(number, recheck.key, problem)

    def until(self, revocations: Revocations) -> float:
        """When it expires, or the news that it rests on grows too old."""
        ends = [inf if self.validity.end is None else self.validity.end]
        for recheck in self.validity.rechecks:
            newest = revocations.lists.get(recheck.key)
            ends.append(0.0 if newest is None else newest[1] + recheck.seconds)
        return min(ends)


@dataclass(frozen=True, slots=True)
class Reduced:
    """What a chain proves, and what would unprove it."""

    capability: Capability
    links: tuple[Link, ...]

    def check(self, at: float, revocations: Revocations) -> None:
        """Raise ChainRefused, naming the link, if one is not valid now or was taken back."""
        for number, link in enumerate(self.links, start=1):
            link.check(number, at, revocations)

    def until(self, revocations: Revocations) -> float:
        """From when on `check` must be asked again, even if nothing more is revoked."""
        return min((link.until(revocations) for link in self.links), default=inf)


def verify(
    chain: Sequence[Certificate],
    owners: Owners,
    at: float,
    revocations: Revocations = Revocations(),
    max_links: int = MAX_LINKS,
) -> Reduced:
    """Find a chain sound at this time, or raise ChainRefused with the first link that fails, and why.

    A link is looked at only if its issuer is the one whom the links before it empower, and looked into only
    if that key has signed it: whoever holds nothing cannot make a verifier work.
    """
    if not chain:
        raise ChainRefused(0, Fault.EMPTY, "has no links")
    if len(chain) > max_links:
        raise ChainRefused(0, Fault.TOO_LONG, f"has {len(chain)} links, and at most {max_links} are followed")
    held, links = _root(_issuer(1, chain[0]), owners), list[Link]()
    met = {held.subject}
    for number, certificate in enumerate(chain, start=1):
        capability = _open(number, certificate, held)
        if capability.subject in met:
            problem = f"leads back to `{capability.subject}`: a chain must have no cycles"
            raise ChainRefused(number, Fault.CYCLIC, problem)
        met.add(capability.subject)
        links.append(_link(certificate, capability))
        links[-1].check(number, at, revocations)
        held = combine(held, capability, number)
    return Reduced(held, tuple(links))


def reduce(capabilities: Sequence[Capability], owners: Owners) -> Capability:
    """The one capability that follows from these, each passing on what the one before it grants."""
    *_, last = steps(capabilities, owners)
    return last


def steps(capabilities: Sequence[Capability], owners: Owners) -> Iterator[Capability]:
    """What is proved after each link. Raises ChainRefused at the first after which nothing is."""
    held = _root(capabilities[0].issuer, owners)
    for number, capability in enumerate(capabilities, start=1):
        held = combine(held, capability, number)
        yield held


def combine(held: Capability, passed: Capability, link: int = 2) -> Capability:
    """Reduce two 5-tuples to one; `link` is the number of the second, for the error if they do not fit."""
    _check_joint(held, passed.issuer, link)
    try:
        authority = held.authority.intersect(passed.authority)
    except InvalidCapability as error:
        raise ChainRefused(link, Fault.TOO_COMPLEX, f"leaves an authority that {error.problem}") from error
    if authority is None:
        raise ChainRefused(link, Fault.WIDENED, f"grants nothing that its issuer `{passed.issuer}` holds")
    validity = held.validity.intersect(passed.validity)
    if validity is None:
        raise ChainRefused(link, Fault.NEVER_VALID, "is at no time valid together with those before it")
    return Capability(held.issuer, passed.subject, passed.delegate, authority, validity)


def arrange(certificates: Iterable[Certificate]) -> tuple[Certificate, ...]:
    """Put certificates into the order of a chain. Raises ChainRefused if they do not form one.

    Nothing is verified: whoever relies on the chain does that.
    """
    by_issuer: dict[PublicKey, Certificate] = {}
    subjects = set()
    for certificate in dict.fromkeys(certificates):
        capability = certificate.unverified()
        subjects.add(capability.subject)
        if by_issuer.setdefault(capability.issuer, certificate) is not certificate:
            raise ChainRefused(
                0, Fault.BROKEN, f"forks: `{capability.issuer}` issued two of the certificates"
            )
    starts = [issuer for issuer in by_issuer if issuer not in subjects]
    if len(starts) != 1:
        raise ChainRefused(0, Fault.BROKEN, f"must have one beginning, and has {len(starts)}")
    chain, key = list[Certificate](), starts[0]
    while key in by_issuer:
        chain.append(by_issuer.pop(key))
        key = chain[-1].unverified().subject
    if by_issuer:
        raise ChainRefused(
            0, Fault.BROKEN, f"does not reach `{next(iter(by_issuer))}`, which issued one of them"
        )
    return tuple(chain)


def require(capabilities: Sequence[Capability], owners: Owners, right: Right, name: str) -> None:
    """Raise ChainRefused at the first link after which this right over this resource is no longer granted."""
    for number, held in enumerate(steps(capabilities, owners), start=1):
        if not held.authority.select(right, name):
            problem = f"does not pass on the right to {right} {right.kind} `{name}`"
            raise ChainRefused(number, Fault.NOT_GRANTED, problem)


def _root(key: PublicKey, owners: Owners) -> Capability:
    root = owners.root(key)
    if root is None:
        raise ChainRefused(1, Fault.NOT_AN_OWNER, f"comes from `{key}`, which owns nothing here")
    return root


def _issuer(number: int, certificate: Certificate) -> PublicKey:
    try:
        return certificate.issuer
    except MalformedCertificate as error:
        raise ChainRefused(number, Fault.MALFORMED, f"is malformed: {error.problem}") from error


def _open(number: int, certificate: Certificate, held: Capability) -> Capability:
    _check_joint(held, _issuer(number, certificate), number)
    try:
        return certificate.open()
    except InvalidSignature as error:
        raise ChainRefused(number, Fault.BAD_SIGNATURE, f"is not good: {error}") from None
    except MalformedCertificate as error:
        raise ChainRefused(number, Fault.MALFORMED, f"is malformed: {error.problem}") from error


def _link(certificate: Certificate, capability: Capability) -> Link:
    named = (recheck.key for recheck in capability.validity.rechecks)
    ids = (certificate.id, key_id(capability.subject))
    return Link(ids, capability.validity, (capability.issuer, *named))


def _check_joint(held: Capability, issuer: PublicKey, link: int) -> None:
    if held.subject != issuer:
        problem = f"is issued by `{issuer}`, but the links before it empower `{held.subject}`"
        raise ChainRefused(link, Fault.BROKEN, problem)
    if not held.delegate:
        raise ChainRefused(
            link, Fault.NOT_DELEGABLE, f"is issued by `{issuer}`, which may not pass on what it holds"
        )


def _check_time(number: int, validity: Validity, at: float) -> None:
    if at < validity.start:
        raise ChainRefused(number, Fault.NOT_YET_VALID, f"is not valid before {format_time(validity.start)}")
    if validity.end is not None and at >= validity.end:
        raise ChainRefused(number, Fault.EXPIRED, f"expired at {format_time(validity.end)}")
