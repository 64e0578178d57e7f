"""From an active role to the capability that its holder presents."""

from __future__ import annotations

import pytest

from authz import Identity
from authz.spki import ChainRefused, Kind, Notice, Owners, Resource, Revocations, Right, Validity, verify
from authz.spki.capability import Capability
from authz.spki.text import parse_authority
from pdp.oasis import Domains, Instance, parse
from pdp.sessions import Appointment, Asserted, Membership, Retracted, Sessions, issuer_channel
from pdp.sessions.role_capability import capability

PITO, MET, COURT, SMITH = (Identity.from_seed(seed * 32) for seed in (b"p", b"m", b"c", b"s"))
RULES = f"""
domain uk.met
trust {COURT.public} for courtOrder
[principal(d)], [staff(d)]* |- detective(d)
detective(d)*, [caseAssignment(d, c)]*, appointment courtOrder(c, np)* |- npTracker(d, np)
npTracker(d, np) |- capability(subscribe, "uk.gov.pito.Numberplate") where [event.numberplate == np]
npTracker(d, np) > colleague(d)
colleague(d) |- capability(connect, "uk.police")
"""
RULEBOOK = Domains([parse(RULES)]).rulebook("uk.met")


def tracking() -> tuple[Sessions, Membership]:
    """Detective Smith, assigned to the case, with the court's order until 9,000."""
    sessions = Sessions(RULEBOOK, 1000)
    for channel in ("fact/staff", "fact/caseAssignment", issuer_channel(str(COURT.public))):
        sessions.watch(channel)
    sessions.hear(Asserted(Instance("staff", ("smith",))))
    sessions.hear(Asserted(Instance("caseAssignment", ("smith", "case7"))))
    sessions.open("s", "smith")
    order = Appointment("", "o1", "courtOrder", ("case7", "LN07 ABC"), "*", 0, 9000, "judge", "").signed(
        COURT
    )
    sessions.present("s", order)
    sessions.activate("s", "detective")
    membership = sessions.activate("s", "npTracker")
    assert isinstance(membership, Membership), str(membership)
    return sessions, membership


def test_tracking_a_numberplate_becomes_the_certificate_that_the_detective_presents():
    _, membership = tracking()
    certificate = capability(RULEBOOK, membership, SMITH.public, MET, until=2000)
    assert certificate is not None
    given = certificate.open()
    assert (given.issuer, given.subject, given.delegate) == (MET.public, SMITH.public, False)
    assert given.authority == parse_authority("""
network: uk.police
action: connect
type: uk.gov.pito.Numberplate
action: subscribe
where: event.numberplate == "LN07 ABC"
""")


@pytest.mark.parametrize(("until", "end"), [(2000, 2000), (99999, 9000)])
def test_the_capability_lasts_no_longer_than_the_role_can(until, end):
    _, membership = tracking()
    certificate = capability(RULEBOOK, membership, SMITH.public, MET, until=until)
    assert certificate is not None
    assert certificate.open().validity == Validity(end=end)


def test_with_the_type_owners_word_for_the_domain_it_makes_a_chain_until_it_is_revoked():
    sessions, membership = tracking()
    certificate = capability(RULEBOOK, membership, SMITH.public, MET, until=2000)
    assert certificate is not None
    owners = Owners([(Resource.of(Kind.TYPE, "uk.gov.pito.*"), PITO.public)])
    wide = parse_authority("type: uk.gov.pito.Numberplate\naction: subscribe\n")
    root = Capability(PITO.public, MET.public, True, wide).sign(PITO)
    reduced = verify((root, certificate), owners, 1500)
    assert reduced.capability.authority.select(Right.SUBSCRIBE, "uk.gov.pito.Numberplate")

    (gone,) = sessions.hear(Retracted(Instance("caseAssignment", ("smith", "case7"))))
    assert gone.role == membership.role
    revocations = Revocations.of(Notice.event(MET, certificate, 1500))
    with pytest.raises(ChainRefused):
        verify((root, certificate), owners, 1500, revocations)


def test_a_role_without_such_a_rule_gives_no_capability():
    sessions, _ = tracking()
    detective = sessions.activate("s", "detective")
    assert isinstance(detective, Membership)
    assert capability(RULEBOOK, detective, SMITH.public, MET, until=2000) is None
