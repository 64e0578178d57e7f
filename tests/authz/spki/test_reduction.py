"""Chains: what they prove, and which link of a bad one fails, and why."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from authz import Identity
from authz.spki import (
    Authority,
    Capability,
    Certificate,
    ChainRefused,
    Fault,
    Grant,
    InvalidCapability,
    Kind,
    Notice,
    Owners,
    Resource,
    Revocations,
    Right,
    Use,
    Validity,
    parse_authority,
    verify,
)
from authz.spki.condition import Rate
from authz.spki.reduction import arrange, combine, reduce, require, steps
from authz.spki.validity import Recheck
from tests.authz.spki.generators import KEYS, OWNER, authorities, capabilities, permits, uses, validities

PITO, MET, CAMERA, OTHER = KEYS[:4]
OWNERS = Owners(
    [(Resource(Kind.TYPE, "uk.gov.pito.*"), PITO.public), (Resource(Kind.NETWORK, "city"), OTHER.public)]
)
EVERYTHING = parse_authority("resource: *\naction: *")
PUBLISH = parse_authority("type: uk.gov.pito.Numberplate\naction: publish")
FINE = parse_authority("type: uk.gov.pito.Fine\naction: publish")
CONNECT = parse_authority("network: city\naction: connect")
DAY = Validity(1000, 2000)
OVER = Validity(1000, 1500)


def link(issuer, subject, authority=PUBLISH, validity=DAY, delegate=True) -> Certificate:
    return Capability(issuer.public, subject.public, delegate, authority, validity).sign(issuer)


GOOD = [link(PITO, MET, EVERYTHING), link(MET, CAMERA, PUBLISH, delegate=False)]


def refusal(chain, at=1500, owners=OWNERS, **options) -> ChainRefused:
    with pytest.raises(ChainRefused) as caught:
        verify(chain, owners, at, **options)
    return caught.value


def test_a_sound_chain_reduces_to_what_all_its_links_grant():
    capability = verify(GOOD, OWNERS, 1500).capability
    assert capability == Capability(PITO.public, CAMERA.public, False, PUBLISH, DAY)


def test_an_owner_can_grant_only_what_it_owns():
    (grant,) = verify([link(PITO, MET, EVERYTHING)], OWNERS, 1500).capability.authority.grants
    assert grant.resource == Resource(Kind.TYPE, "uk.gov.pito.*")


def test_a_later_grant_serves_the_brokers_of_a_domain_without_reissue():
    blanket = link(MET, CAMERA, EVERYTHING)
    later = link(PITO, MET, parse_authority("type: uk.gov.pito.Fine\naction: subscribe"))
    granted = verify([later, blanket], OWNERS, 1500).capability.authority
    assert granted == parse_authority("type: uk.gov.pito.Fine\naction: subscribe")


@pytest.mark.parametrize(
    ("chain", "number", "fault", "problem"),
    [
        ([], 0, Fault.EMPTY, "no links"),
        ([GOOD[1]], 1, Fault.NOT_AN_OWNER, "owns nothing here"),
        ([GOOD[0], link(OTHER, CAMERA)], 2, Fault.BROKEN, "the links before it empower"),
        ([link(PITO, MET, delegate=False), GOOD[1]], 2, Fault.NOT_DELEGABLE, "may not pass on"),
        ([GOOD[0], link(MET, PITO), link(PITO, CAMERA)], 2, Fault.CYCLIC, "leads back"),
        ([link(PITO, PITO), GOOD[0]], 1, Fault.CYCLIC, "leads back"),
        ([GOOD[0], link(MET, MET)], 2, Fault.CYCLIC, "leads back"),
        ([link(PITO, MET), link(MET, CAMERA, FINE)], 2, Fault.WIDENED, "grants nothing that its issuer"),
        ([link(PITO, MET, CONNECT)], 1, Fault.WIDENED, "grants nothing that its issuer"),
        ([GOOD[0], link(MET, CAMERA, validity=OVER)], 2, Fault.EXPIRED, "expired at 1970-01-01T00:25:00Z"),
        ([GOOD[0], link(MET, CAMERA, validity=Validity(1501))], 2, Fault.NOT_YET_VALID, "not valid before"),
        ([link(PITO, MET, validity=Validity(0, 10)), GOOD[1]], 1, Fault.EXPIRED, "expired"),
        ([GOOD[0], Certificate(GOOD[1].body, GOOD[0].signature)], 2, Fault.BAD_SIGNATURE, "is not valid"),
        ([Certificate(b"\x93", bytes(64))], 1, Fault.MALFORMED, "malformed"),
        ([GOOD[0], Certificate(b"", bytes(64))], 2, Fault.MALFORMED, "malformed"),
    ],
)
def test_an_unsound_chain_is_refused_with_the_link_that_fails_and_why(chain, number, fault, problem):
    error = refusal(chain)
    assert (error.link, error.fault) == (number, fault)
    assert problem in str(error)


def test_a_link_may_widen_the_words_but_never_the_authority():
    chain = [link(PITO, MET, PUBLISH), link(MET, CAMERA, parse_authority("type: uk.*\naction: *"))]
    assert verify(chain, OWNERS, 1500).capability.authority == PUBLISH


def test_the_first_link_that_does_not_pass_on_a_right_is_named():
    capabilities = [certificate.open() for certificate in GOOD]
    require(capabilities, OWNERS, Right.PUBLISH, "uk.gov.pito.Numberplate")
    with pytest.raises(
        ChainRefused, match="link 2 of the chain does not pass on the right to subscribe type"
    ):
        require(capabilities, OWNERS, Right.SUBSCRIBE, "uk.gov.pito.Numberplate")
    with pytest.raises(ChainRefused, match="link 1 of the chain does not pass on the right to publish type"):
        require(capabilities, OWNERS, Right.PUBLISH, "uk.Weather")


@given(st.lists(authorities, min_size=1, max_size=4), uses)
@settings(max_examples=25)
def test_reduction_never_widens_authority(chain, use):
    owners = Owners([(Resource(Kind.ANY, "*"), OWNER.public)])
    keys = KEYS[: len(chain) + 1]
    links = [
        Capability(issuer.public, subject.public, True, authority)
        for (issuer, subject), authority in zip(pairwise(keys), chain, strict=True)
    ]
    try:
        reduced = reduce(links, owners)
    except ChainRefused as error:
        assume(error.fault is not Fault.WIDENED)
        raise
    assert all(authority.covers(reduced.authority) for authority in chain)
    assert not permits(reduced.authority, use) or all(permits(authority, use) for authority in chain)


@given(capabilities, capabilities, capabilities)
def test_reduction_does_not_depend_on_where_it_begins(a, b, c):
    a, b = (Capability(x.issuer, y.issuer, True, x.authority, x.validity) for x, y in ((a, b), (b, c)))

    def attempt(make):
        try:
            return make()
        except ChainRefused as error:
            return error.fault in (Fault.WIDENED, Fault.NEVER_VALID)

    assert attempt(lambda: combine(combine(a, b), c)) == attempt(lambda: combine(a, combine(b, c)))


@given(validities, validities, validities, st.integers(0, 200))
def test_validity_is_the_later_start_the_earlier_end_and_all_rechecks(a, b, c, at):
    ab, bc = a.intersect(b), b.intersect(c)
    assert ab == b.intersect(a)
    assert (ab and ab.intersect(c)) == (bc and a.intersect(bc))
    assert (ab is not None and ab.covers(at)) is (a.covers(at) and b.covers(at))
    if ab is not None:
        strictest = min((recheck.seconds for recheck in (*a.rechecks, *b.rechecks)), default=None)
        assert [recheck.seconds for recheck in ab.rechecks] == ([] if strictest is None else [strictest])


def test_a_long_chain_is_refused_at_once_unless_asked_for():
    error = refusal([link(PITO, PITO)] * 10_000)
    assert (error.link, error.fault) == (0, Fault.TOO_LONG)
    keys = [PITO, *(Identity.from_seed(n.to_bytes(32, "big")) for n in range(100, 1_600))]
    chain = [link(issuer, subject) for issuer, subject in pairwise(keys)]  # deeper than Python may recurse
    chain[-1] = Certificate(chain[-1].body, bytes(64))
    assert refusal(chain, max_links=1_500).link == 1_500


def test_an_authority_that_grows_without_end_is_refused():
    keys = [PITO, *KEYS[1:8]]

    def authority(n: int) -> Authority:
        types = (Resource(Kind.TYPE, "uk.gov.pito.*"),) * 3
        return Authority.of(
            *(Grant.of(t, conditions=[Rate(7 + i, 60 * (n + 2) + i)]) for i, t in enumerate(types))
        )

    chain = [link(a, b, authority(n)) for n, (a, b) in enumerate(pairwise(keys))]
    error = refusal(chain)
    assert error.fault is Fault.TOO_COMPLEX
    assert "more than 32 grants" in str(error)


def test_whoever_holds_nothing_makes_no_work(monkeypatch):
    stranger = [link(OTHER, MET), *GOOD[1:]] * 10
    monkeypatch.setattr(Certificate, "open", lambda _: pytest.fail("a stranger's certificate was opened"))
    owners = Owners([(Resource(Kind.TYPE, "uk.gov.pito.*"), PITO.public)])
    assert refusal(stranger, owners=owners).fault is Fault.NOT_AN_OWNER


def test_steps_show_what_each_link_leaves():
    opened = [certificate.open() for certificate in GOOD]
    assert [step.subject for step in steps(opened, OWNERS)] == [MET.public, CAMERA.public]


def test_a_revoked_link_is_named_with_its_revoker():
    revocations = Revocations.of(Notice.event(MET, GOOD[1], 1400))
    error = refusal(GOOD, revocations=revocations)
    assert (error.link, error.fault) == (2, Fault.REVOKED)
    assert str(MET.public) in str(error)


def test_only_the_issuer_or_a_key_named_for_rechecks_can_revoke():
    revocations = Revocations.of(Notice.event(OTHER, GOOD[1], 1400))
    verify(GOOD, OWNERS, 1500, revocations)
    named = link(MET, CAMERA, validity=replace_rechecks(DAY, OTHER))
    revocations = Revocations.of(Notice.first(OTHER, 1400).following(OTHER, 1450, [named]))
    assert refusal([GOOD[0], named], revocations=revocations).fault is Fault.REVOKED


def replace_rechecks(validity: Validity, key: Identity) -> Validity:
    return Validity(validity.start, validity.end, (Recheck(key.public, 60),))


def test_a_recheck_needs_a_list_that_is_fresh_enough():
    chain = [GOOD[0], link(MET, CAMERA, validity=replace_rechecks(DAY, MET))]
    assert refusal(chain).fault is Fault.REVOCATION_UNKNOWN
    revocations = Revocations.of(Notice.first(MET, 1450))
    verify(chain, OWNERS, 1510, revocations)
    error = refusal(chain, at=1511, revocations=revocations)
    assert (error.link, error.fault) == (2, Fault.REVOCATION_UNKNOWN)


def test_the_longest_pattern_decides_who_owns_a_resource():
    owners = Owners(
        [
            (Resource(Kind.ANY, "*"), OTHER.public),
            (Resource(Kind.TYPE, "uk.gov.*"), MET.public),
            (Resource(Kind.TYPE, "uk.gov.pito.*"), PITO.public),
        ]
    )

    def owned(key: Identity, name: str) -> bool:
        root = owners.root(key.public)
        return root is not None and permits(root.authority, Use(Right.PUBLISH, name, 0))

    for name, owner in (("uk.gov.pito.N", PITO), ("uk.gov.Tax", MET), ("uk.Weather", OTHER)):
        assert [owned(key, name) for key in (PITO, MET, OTHER)] == [
            key is owner for key in (PITO, MET, OTHER)
        ]
    assert owners.root(CAMERA.public) is None


def test_a_resource_has_one_owner():
    with pytest.raises(InvalidCapability, match=r"`uk\.\*` must have one owner, not two"):
        Owners([(Resource(Kind.TYPE, "uk.*"), PITO.public), (Resource(Kind.TYPE, "uk.*"), MET.public)])


def test_certificates_are_put_into_the_order_of_their_chain():
    third = link(CAMERA, OTHER)
    assert arrange([third, GOOD[1], GOOD[0], GOOD[1]]) == (*GOOD, third)


@pytest.mark.parametrize(
    ("certificates", "problem"),
    [
        ([], "one beginning, and has 0"),
        ([link(PITO, MET), link(MET, PITO)], "one beginning, and has 0"),
        ([link(PITO, MET), link(CAMERA, OTHER)], "one beginning, and has 2"),
        ([*GOOD, link(MET, OTHER)], "forks"),
        ([link(PITO, MET), link(CAMERA, OTHER), link(OTHER, CAMERA)], "does not reach"),
    ],
)
def test_certificates_that_form_no_chain_are_refused(certificates, problem):
    with pytest.raises(ChainRefused, match=problem):
        arrange(certificates)


def test_a_reduction_is_checked_anew_at_each_time():
    reduced = verify(GOOD, OWNERS, 1500)
    reduced.check(1999, Revocations())
    with pytest.raises(ChainRefused, match="link 1 of the chain expired"):
        reduced.check(2000, Revocations())
    with pytest.raises(ChainRefused, match="link 2 of the chain was revoked"):
        replace(reduced).check(1500, Revocations.of(Notice.event(MET, GOOD[1], 1)))
