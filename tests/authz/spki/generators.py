"""Random capabilities over a small world, so that they often overlap, and chains of them."""

from __future__ import annotations

import base64

from hypothesis import strategies as st

from authz import Entity, Identity, Request
from authz import predicate as p
from authz.spki import (
    Authority,
    Capability,
    Grant,
    InvalidCapability,
    Kind,
    Resource,
    Right,
    Use,
    UseRefused,
    Validity,
    parse_chain,
    permit,
)
from authz.spki.capability import SIGNATURE_BYTES
from authz.spki.condition import EVERY_DAY, Rate, Window
from authz.spki.validity import Recheck

KEYS = [Identity.from_seed(bytes([n]) * 32) for n in range(8)]
OWNER = KEYS[0]
NAMES = {
    Kind.NETWORK: ["city", "city.north", "UK Police Network"],
    Kind.TYPE: ["uk.gov.pito.Numberplate", "uk.gov.pito.Fine", "uk.gov.Tax", "uk.Weather"],
    Kind.OBJECT: ["/sales/q1", "/sales/eu/q1", "/hr/pay", "doc:7"],
}
PATTERNS = {
    Kind.NETWORK: ["*", "city", "city.*", "UK Police Network"],
    Kind.TYPE: ["*", "uk.*", "uk.gov.*", "uk.gov.pito.*", "uk.gov.pito.Numberplate", "uk.Weather"],
    Kind.OBJECT: ["*", "/*", "/sales/*", "/sales/eu/*", "/hr/*", "doc:7"],
}
ATTRIBUTES = ["location", "numberplate", "speed", "odd name, #1"]
PLACES = ["Victoria", "Vauxhall", "Kings Cross"]


def paths(root: str):
    if root == "event":
        return st.builds(lambda name: p.Path("event", (name,)), st.sampled_from(ATTRIBUTES))
    return st.sampled_from(
        [p.Path("subject"), p.Path("subject", ("role",)), p.Path("context", ("a", 0, "id"))]
    )


def comparisons(root: str):
    path = paths(root)
    numbers = st.sampled_from([0, 30, 30.5, 50, -1e30])
    scalars = st.sampled_from([*PLACES, 30, 50, True, 'quo"te\n', ""])
    return st.one_of(
        st.builds(p.Exists, path),
        st.builds(p.Kind, path, st.sampled_from(["string", "number", "boolean", "list", "object"])),
        st.builds(p.Equal, path, scalars),
        st.builds(p.Order, path, st.sampled_from(["<", "<=", ">", ">="]), numbers | st.sampled_from(PLACES)),
        st.builds(p.In, path, st.lists(scalars, max_size=3).map(tuple)),
        st.builds(p.Prefix, path, st.sampled_from(["V", "Vi", "K"]), st.booleans()),
        st.builds(p.Suffix, path, st.sampled_from(["a", "ll"])),
        st.builds(p.Contains, path, st.sampled_from(["a", "s C"]), st.booleans()),
        st.builds(p.Cidr, path, st.sampled_from(["10.0.0.0/8", "10.1.0.0/16", "::/0"])),
        st.builds(p.Subset, path, st.lists(scalars, max_size=3).map(tuple)),
        st.builds(p.Overlaps, path, st.lists(scalars, max_size=3).map(tuple)),
        st.builds(
            p.Relate, path, st.sampled_from(["==", "<", ">=", "in", "subset", "overlaps"]), paths(root)
        ),
    )


def conditions(root: str):
    """Comparisons, and now and then something joined of them."""
    single = comparisons(root)
    pair = st.lists(single, min_size=2, max_size=2).map(tuple)
    return st.one_of(single, single, single, st.builds(p.Not, single), st.builds(p.Or, pair))


CONDITIONS = {Kind.TYPE: conditions("event"), Kind.OBJECT: conditions("subject")}
WHERE = {kind: st.lists(each, max_size=2) for kind, each in CONDITIONS.items()}
RIGHTS = {kind: st.none() | st.sets(st.sampled_from(sorted(kind.rights)), min_size=1) for kind in Kind}
SEEN = st.none() | st.sets(st.sampled_from(ATTRIBUTES), min_size=1)

windows = st.builds(
    Window,
    st.sampled_from([0, 540, 1320]),
    st.sampled_from([360, 1020, 1440]),
    st.sampled_from([EVERY_DAY, 0b0011111, 0b1100000]),
    st.sampled_from(["UTC", "Europe/London"]),
)
rates = st.builds(Rate, st.integers(1, 6), st.sampled_from([1, 4, 6, 60, 90]))
validities = st.builds(
    lambda start, length, rechecks: Validity(start, start + length if length else None, rechecks),
    st.integers(0, 50),
    st.none() | st.integers(1, 100),
    st.just(()) | st.builds(lambda seconds: (Recheck(OWNER.public, seconds),), st.integers(1, 5)),
)


def resources(kind: Kind):
    if kind is Kind.ANY:
        return st.just(Resource(kind, "*"))
    patterns = st.sampled_from(PATTERNS[kind])
    return st.builds(
        lambda pattern, less: Resource(kind, pattern).less(*less),
        patterns,
        st.lists(patterns.filter(lambda pattern: pattern != "*"), max_size=2),
    )


def _grant(kind: Kind):
    def make(resource, rights, attributes, where, bounds):
        try:
            return Grant.of(resource, rights, attributes, where, bounds)
        except InvalidCapability:  # the conditions exclude each other
            return Grant.of(resource)

    seen = SEEN if kind is Kind.TYPE else st.none()
    where = WHERE.get(kind, st.just(()))
    return st.builds(make, resources(kind), RIGHTS[kind], seen, where, st.lists(windows | rates, max_size=2))


grants = st.one_of(*map(_grant, (Kind.TYPE, Kind.TYPE, Kind.OBJECT, Kind.NETWORK, Kind.ANY)))
authorities = st.lists(grants, min_size=1, max_size=3).map(lambda every: Authority.of(*every))


public_keys = st.sampled_from([key.public for key in KEYS])
capabilities = st.builds(Capability, public_keys, public_keys, st.booleans(), authorities, validities)
events = st.dictionaries(
    st.sampled_from(ATTRIBUTES),
    st.sampled_from([*PLACES, "10.1.2.3", 30, 50, True, None]) | st.just(["Victoria"]),
)


times = st.integers(0, 14 * 24).map(lambda hours: hours * 3600.0)


requests = st.builds(
    lambda name, role, values: Request(
        Entity(name, {"role": role}), Entity("it"), Entity("do"), {"a": [{"id": each} for each in values]}
    ),
    st.sampled_from([*PLACES, "10.1.2.3"]),
    st.sampled_from([*PLACES, 30, True, ["Victoria"]]),
    st.lists(st.sampled_from([*PLACES, 30, 50]), max_size=1),
)
CONTENT = {Kind.TYPE: events, Kind.OBJECT: requests, Kind.NETWORK: st.none()}


def _use(right: Right):
    return st.builds(Use, st.just(right), st.sampled_from(NAMES[right.kind]), times, CONTENT[right.kind])


uses = st.one_of(*map(_use, Right))


def permits(authority: Authority | None, use: Use) -> bool:
    """Whether a holder of the authority may make this use of it."""
    if authority is None:
        return False
    try:
        permit(Capability(OWNER.public, OWNER.public, True, authority), use, {})
    except UseRefused:
        return False
    return True


def read_capability(capability: str) -> Capability:
    """What stands in a certificate with these fields, whoever signed it."""
    signature = base64.b64encode(bytes(SIGNATURE_BYTES)).decode()
    return parse_chain(f"{capability.rstrip()}\nsignature: {signature}\n")[0].unverified()
