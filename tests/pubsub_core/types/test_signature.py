"""Definitions that are forged, altered or edited without the right to are refused; the others hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from authz import Identity
from pubsub_core.errors import TypeRefused
from pubsub_core.types.edit import RIGHTS, Added, Removed, Renamed, Retyped, apply, edits, find
from pubsub_core.types.event_type import Attribute, AttributeType, EventType
from pubsub_core.types.registry import Catalogue
from pubsub_core.types.signature import SignedType
from tests.pubsub_core.kinds import MET, NOW, PITO, THIEF, catalogue_of, chain_of, encoded, ids, sighting

OLD = sighting()
NEW_ID = ids()
for _ in range(50):
    NEW_ID()
EDITS = {
    "addAttribute": Added(Attribute("lane", NEW_ID().hex, AttributeType.INTEGER)),
    "removeAttribute": Removed(find(OLD, "speed")),
    "editAttributeName": Renamed(find(OLD, "location"), "place"),
    "editAttributeType": Retyped(find(OLD, "speed"), AttributeType.INTEGER),
}


def edited(*names: str) -> EventType:
    return apply(OLD, [EDITS[name] for name in names])


def accept(*signed: SignedType) -> EventType:
    catalogue = Catalogue()
    return [catalogue.accept(each, NOW) for each in signed][-1]


def test_what_the_owner_signed_is_accepted_also_after_a_journey():
    signed = SignedType.decode(SignedType.sign(OLD, PITO).encode())
    assert accept(signed) == OLD


def test_a_definition_altered_after_it_was_signed_is_refused():
    signed = SignedType.sign(OLD, PITO)
    for change in ({"name": "uk.Other"}, {"owner": str(THIEF.public)}, {"attributes": ()}):
        forged = structs.replace(signed, definition=structs.replace(OLD, **change))
        with pytest.raises(TypeRefused, match="signature"):
            accept(forged)


def test_a_first_version_signed_by_somebody_else_is_refused():
    with pytest.raises(TypeRefused, match="only its owner"):
        accept(SignedType.sign(OLD, THIEF))


@given(data=st.binary(max_size=200))
def test_bytes_that_are_no_definition_are_refused(data):
    with pytest.raises(TypeRefused):
        SignedType.decode(data)


@given(
    done=st.sets(st.sampled_from(sorted(EDITS)), min_size=1),
    held=st.sets(st.sampled_from(sorted(EDITS)), min_size=1),
)
def test_a_delegate_makes_exactly_the_edits_that_were_granted(done, held):
    if {"removeAttribute", "editAttributeType"} <= done:
        done = done - {"editAttributeType"}
    chain = chain_of(f"type: uk.gov.pito.*\naction: {'|'.join(sorted(held))}")
    signed = SignedType.sign(edited(*sorted(done)), MET, chain)
    if done <= held:
        assert accept(SignedType.sign(OLD, PITO), signed) == signed.definition
    else:
        with pytest.raises(TypeRefused, match="is not granted"):
            accept(SignedType.sign(OLD, PITO), signed)


def test_a_grant_that_lists_attributes_is_for_edits_of_those_only():
    chain = chain_of("type: uk.gov.pito.*\naction: editAttributeName\nattributes: speed")
    with pytest.raises(TypeRefused, match="`editAttributeName` of the attribute `location`"):
        accept(SignedType.sign(OLD, PITO), SignedType.sign(edited("editAttributeName"), MET, chain))


def test_a_chain_of_somebody_else_or_from_somebody_else_gives_nothing():
    grants = "type: uk.gov.pito.*\naction: addAttribute"
    for chain in (chain_of(grants, to=THIEF), chain_of(grants, by=THIEF), ()):
        with pytest.raises(TypeRefused):
            accept(SignedType.sign(OLD, PITO), SignedType.sign(edited("addAttribute"), MET, chain))


def test_a_delegate_cannot_change_anything_but_attributes():
    chain = chain_of("type: uk.gov.pito.*\naction: *")
    renamed = structs.replace(edited("addAttribute"), name="uk.gov.pito.Other")
    with pytest.raises(TypeRefused, match="an edit changes attributes only"):
        accept(SignedType.sign(OLD, PITO), SignedType.sign(renamed, MET, chain))


def test_extending_the_type_of_another_takes_the_right_to_extend():
    mine = Identity.generate()

    def child(extend: bytes) -> SignedType:
        kind = EventType.new(
            "uk.met.Chase", mine.public, [("unit", AttributeType.STRING)], NEW_ID, OLD, extend
        )
        return SignedType.sign(kind, mine)

    granted = encoded("type: uk.gov.pito.Numberplate\naction: extend", to=mine)
    catalogue = catalogue_of(OLD)
    family = catalogue.accept(child(granted), NOW)
    assert [each.name for each in catalogue.attributes(family.version).values()] == [
        "numberplate", "location", "time", "speed", "unit",
    ]  # fmt: skip
    assert [each.name for each in catalogue.family(OLD.id)] == ["uk.gov.pito.Numberplate", "uk.met.Chase"]
    other = encoded("type: uk.gov.pito.Numberplate\naction: extend", to=MET)
    useless = encoded("type: uk.gov.pito.Numberplate\naction: publish", to=mine)
    for extend in (b"", other, useless):
        with pytest.raises(TypeRefused):
            catalogue_of(OLD).accept(child(extend), NOW)


@given(names=st.sets(st.sampled_from(sorted(EDITS)), min_size=1))
def test_the_edits_found_between_two_versions_are_those_that_were_made(names):
    if {"removeAttribute", "editAttributeType"} <= names:
        names = names - {"removeAttribute"}
    found = edits(OLD, edited(*sorted(names)))
    assert {RIGHTS[type(each)].value for each in found} == names
