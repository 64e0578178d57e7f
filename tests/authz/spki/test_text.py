"""The readable form: it says everything, and an error says where."""

from __future__ import annotations

import pytest
from hypothesis import given

from authz import Identity, PublicKey
from authz import predicate as p
from authz.errors import InvalidSyntax
from authz.spki import Capability, Kind, Notice, Right, Validity
from authz.spki.condition import Rate, Window
from authz.spki.text import (
    parse_authority,
    parse_chain,
    parse_notice,
    parse_owners,
    unparse_authority,
    unparse_capability,
    unparse_certificate,
    unparse_chain,
    unparse_notice,
)
from tests.authz.spki.generators import KEYS, authorities, capabilities, read_capability

KEY = str(KEYS[0].public)
CAMERA = """\
# the camera at Victoria
type: uk.gov.pito.Numberplate
action: publish
attributes: location = "Victoria"   # and nowhere else
            numberplate

            timestamp
when: 09:00-17:00 mon-fri Europe/London
rate: 10 per minute
"""


@given(authorities)
def test_an_authority_is_read_back_as_it_was_written(authority):
    assert parse_authority(unparse_authority(authority)) == authority


@given(capabilities)
def test_a_capability_is_read_back_as_it_was_written(capability):
    assert read_capability(unparse_capability(capability)) == capability


def test_certificates_and_chains_are_read_back_as_they_were_written():
    issuer = Identity.generate()
    capability = read_capability(f"issuer: {issuer.public}\nsubject: {KEY}\n{CAMERA}")
    certificate = capability.sign(issuer)
    assert parse_chain(unparse_certificate(certificate)) == (certificate,)
    assert parse_chain(unparse_chain([certificate] * 3)) == (certificate,) * 3
    assert certificate.open() == capability


def test_revocation_lists_and_events_are_read_back_as_they_were_written():
    certificates = [
        Capability(KEYS[0].public, key.public, False, parse_authority(CAMERA), validity).sign(KEYS[0])
        for key, validity in ((KEYS[1], Validity(5, 50)), (KEYS[2], Validity()))
    ]
    first = Notice.first(KEYS[0], 7)
    for notice in (
        first,
        first.following(KEYS[0], 8, certificates),
        Notice.event(KEYS[0], certificates[0], 9),
    ):
        assert parse_notice(unparse_notice(notice)) == notice


def test_the_camera_of_the_police_scenario_is_understood():
    (grant,) = parse_authority(CAMERA).grants
    assert (grant.resource.kind, grant.resource.pattern) == (Kind.TYPE, "uk.gov.pito.Numberplate")
    assert grant.rights == {Right.PUBLISH}
    assert grant.attributes == {"location", "numberplate", "timestamp"}
    assert grant.where == (p.Equal(p.Path("event", ("location",)), "Victoria"),)
    assert grant.windows == {Window(540, 1020, 0b11111, "Europe/London")}
    assert grant.rates == {Rate(10, 60)}


def test_lines_of_attributes_and_commas_say_the_same():
    commas = CAMERA.replace("   # and nowhere else\n", ",").replace("numberplate\n\n", "numberplate,")
    assert parse_authority(commas) == parse_authority(CAMERA)


def test_rights_are_combined_and_wildcarded():
    network = parse_authority("network: UK Police Network\naction: connect|install")
    assert network.grants[0].rights == {Right.CONNECT, Right.INSTALL}
    assert parse_authority("type: *\naction: *").grants[0].rights is None


def test_a_restriction_reads_the_same_in_the_list_and_under_where():
    listed = parse_authority('type: a.B\naction: *\nattributes: location = "Victoria", speed > 3')
    stated = parse_authority(
        "type: a.B\naction: *\nattributes: location, speed\n"
        'where: event.location == "Victoria" and event.speed > 3'
    )
    assert listed == stated


def test_days_may_run_over_the_end_of_the_week():
    (grant,) = parse_authority("type: *\naction: *\nwhen: 22:00-06:00 fri-mon,wed").grants
    assert grant.windows == {Window(1320, 360, 0b1110101)}


def test_owners_are_read():
    text = (
        f"owner: {KEY}\nnetwork: UK Police Network\ntype: uk.gov.pito.*\nowner: {KEYS[1].public}\ntype: uk.*"
    )
    assert [(str(resource.pattern), key) for resource, key in parse_owners(text)] == [
        ("UK Police Network", KEYS[0].public),
        ("uk.gov.pito.*", KEYS[0].public),
        ("uk.*", KEYS[1].public),
    ]


@pytest.mark.parametrize(
    ("text", "line", "column", "problem"),
    [
        ("", 1, 1, "expected `issuer` or `network`"),
        ("type: a.B", 1, 10, "`action`"),
        ("type: a.B\nattributes: x", 1, 1, "`type` must be followed by `action`"),
        ("type: a.B\naction: fly", 2, 9, "`fly` must be `*` or one of `connect`"),
        ("type: a.B\naction: publish|connect", 2, 1, "`connect` is a right over a network"),
        ("type: a.B\naction: *\naction: *", 3, 1, "must stand once"),
        ("type: a*\naction: *", 1, 1, "must have a `.` before its `*`"),
        ("type: a.B\naction: *\nattributes: x = ", 3, 17, "the end of the line cannot stand here"),
        ('type: a.B\naction: *\nwhere: event.x matches "y"', 3, 1, "is not among the tests"),
        ("type: a.B\naction: *\nwhere: subject.x == 1", 3, 1, "`subject` is unknown here"),
        ("network: a\naction: *\nwhere: event.x == 1", 3, 1, "must not stand with a network"),
        ('type: a.B\naction: *\nwhere: event.x in network "10"', 3, 1, "must be a network such as"),
        ('type: a.B\naction: *\nwhere: event.x == "\\ud800"', 3, 19, "half a character"),
        ("type: a.B\naction: *\nwhere: event.x == 007", 3, 19, "`007` cannot stand here"),
        ("type: a.B\naction: *\nwhere: event.x < true", 3, 8, "compares numbers or strings"),
        ("type: a.B\naction: *\nwhere: event.x == 99999999999999999999", 3, 19, "64 bits"),
        ("type: a.B\naction: *\nwhere: event.x == 1 and event.x == 2", 1, 1, "grants nothing"),
        ("type: a.B\naction: *\nwhen: 09:00-25:00", 3, 1, "24:00 at the latest"),
        ("type: a.B\naction: *\nwhen: 09:61-10:00", 3, 7, "time of day"),
        ("type: a.B\naction: *\nwhen: 09:00-10:00 mon-fry", 3, 19, "days such as"),
        ("type: a.B\naction: *\nwhen: 09:00-10:00 Atlantis", 3, 1, "time zone"),
        ("type: a.B\naction: *\nrate: 0 per minute", 3, 1, "at least one use"),
        ("type: a.B\naction: *\nrate: 5 per fortnight", 3, 13, "`second`, `minute`, `hour`, `day`"),
        ("type: a.B\n action: *", 1, 10, "the end of the line cannot stand here"),
    ],
)
def test_an_error_says_where_and_what_would_be_right(text, line, column, problem):
    with pytest.raises(InvalidSyntax) as caught:
        parse_authority(text)
    assert problem in caught.value.problem
    assert (caught.value.line, caught.value.column) == (line, column)


@pytest.mark.parametrize(
    ("fields", "line", "problem"),
    [
        ("issuer: PITO\nsubject: {key}\n", 1, "is not a public key"),
        ("issuer: {key}\nsubject: {key}\nuntil: tomorrow\n", 3, "must be a time such as"),
        ("issuer: {key}\nsubject: {key}\nuntil: 2300-02-30T00:00:00Z\n", 3, "must be a time such as"),
        (
            "issuer: {key}\nsubject: {key}\nfrom: 2031-01-01T00:00:00Z\nuntil: 2030-01-01T00:00:00Z\n",
            4,
            "must be later",
        ),
        ("issuer: {key}\nsubject: {key}\ndelegate: maybe\n", 3, "`yes`, `no`"),
        ("issuer: {key}\nsubject: {key}\nrecheck: {key} within 0 seconds\n", 3, "at least one second"),
    ],
)
def test_an_error_in_the_fields_says_where_too(fields, line, problem):
    with pytest.raises(InvalidSyntax) as caught:
        read_capability(fields.format(key=KEY) + "type: *\naction: *\n")
    assert problem in caught.value.problem
    assert caught.value.line == line


@pytest.mark.parametrize(
    ("deep", "problem"),
    [
        ("not (true and " * 9 + "true" + ")" * 9, "nested at most 8 levels"),
        ("not " * 9 + "true", "must not negate twice"),
        ("not " * 5000 + "true", "nested too deeply"),
    ],
)
def test_conditions_nested_without_end_are_refused(deep, problem):
    with pytest.raises(InvalidSyntax, match=problem):
        parse_authority(f"type: a.B\naction: *\nwhere: {deep}")


def test_brackets_that_change_nothing_are_understood():
    plain = parse_authority("type: a.B\naction: *\nwhere: event.x == 1 or event.y == 2")
    assert parse_authority("type: a.B\naction: *\nwhere: ((event.x == 1) or (event.y == 2))") == plain
    deep = "(" * 5000 + "event.x == 1 or event.y == 2" + ")" * 5000
    assert parse_authority(f"type: a.B\naction: *\nwhere: {deep}") == plain


def test_bare_names_are_attributes_of_the_event():
    full = parse_authority("type: a.B\naction: *\nwhere: event.x == 1 or event.y == event.z")
    assert parse_authority("type: a.B\naction: *\nwhere: x == 1 or y == z") == full


def test_a_list_of_attributes_restricts_them_one_by_one():
    (grant,) = parse_authority('type: a.B\naction: *\nattributes: x != 1, "exists", y in ["a", "b"]').grants
    assert grant.attributes == {"x", "exists", "y"}
    assert {str(term) for term in grant.where} == {
        "exists event.x",
        "not event.x == 1",
        'event.y in ["a", "b"]',
    }
    with pytest.raises(InvalidSyntax, match="must restrict one attribute"):
        parse_authority("type: a.B\naction: *\nattributes: x == y")


def test_what_was_written_must_be_what_is_wanted():
    with pytest.raises(InvalidSyntax, match=r"files/camera\.cap:1:1: .* signed certificates must stand here"):
        parse_chain("type: a.B\naction: *", "files/camera.cap")
    with pytest.raises(InvalidSyntax, match="grants must stand here"):
        parse_authority(f"owner: {KEY}\ntype: a.*")


def test_keys_in_text_are_checked_for_typing_errors():
    mistyped = KEY[:10] + ("A" if KEY[10] != "A" else "B") + KEY[11:]
    assert PublicKey.parse(KEY) == KEYS[0].public
    with pytest.raises(InvalidSyntax, match="typing error"):
        read_capability(f"issuer: {mistyped}\nsubject: {KEY}\ntype: *\naction: *")
