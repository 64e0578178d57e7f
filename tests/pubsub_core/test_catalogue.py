"""Versions live side by side, and no two types share a name or a UUID."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from pubsub_core.catalogue import Catalogue
from pubsub_core.errors import TypeRefused, UnknownType
from pubsub_core.event_type import Attribute, AttributeType, EventType
from pubsub_core.type_edit import Added, Removed, Renamed, Retyped, apply, find
from pubsub_core.type_mapping import reader
from pubsub_core.type_signature import SignedType
from tests.pubsub_core.kinds import MET, NOW, PITO, THIEF, catalogue_of, chain_of, ids, sighting

DRAW = ids()
ONE = sighting(DRAW)
TWO = apply(
    ONE,
    [
        Renamed(find(ONE, "location"), "place"),
        Retyped(find(ONE, "speed"), AttributeType.STRING),
        Removed(find(ONE, "time")),
        Added(Attribute("lane", DRAW().hex, AttributeType.INTEGER)),
    ],
    DRAW,
)
EDITED = apply(ONE, [Added(Attribute("lane", DRAW().hex, AttributeType.INTEGER))], DRAW)
EDIT_RIGHT = chain_of("type: uk.gov.pito.*\naction: addAttribute")


def values(kind: EventType, **named: object) -> dict[str, object]:
    return {find(kind, name).id: value for name, value in named.items()}


def test_both_versions_are_known_and_the_newest_is_the_last():
    catalogue = catalogue_of(ONE, TWO)
    assert catalogue.version(ONE.version) == ONE
    assert catalogue.newest(ONE.id) == catalogue.named(ONE.name) == TWO


def test_an_event_of_one_version_is_read_by_the_names_and_types_of_the_other():
    catalogue = catalogue_of(ONE, TWO)
    one, two = catalogue.attributes(ONE.version), catalogue.attributes(TWO.version)
    old = values(ONE, numberplate="A1", location="Victoria", time=5.0, speed=31.5)
    assert reader(one, two)(old) == {"numberplate": "A1", "place": "Victoria", "speed": "31.5"}
    new = values(TWO, numberplate="A1", place="Soho", speed="31.5", lane=2)
    assert reader(two, one)(new) == {"numberplate": "A1", "location": "Soho"}


def test_a_name_or_a_uuid_that_is_taken_is_refused():
    catalogue = catalogue_of(ONE)
    other = EventType.new(ONE.name, THIEF.public, [], DRAW)
    with pytest.raises(TypeRefused, match="has this name"):
        catalogue.accept(SignedType.sign(other, THIEF), NOW)
    stolen = structs.replace(other, name="x.Y", id=ONE.id)
    with pytest.raises(TypeRefused, match="UUID belongs"):
        catalogue.accept(SignedType.sign(stolen, THIEF), NOW)


def test_a_type_that_others_extend_is_not_removed_before_them():
    child = EventType.new("uk.gov.pito.Chase", PITO.public, [], DRAW, ONE)
    catalogue = catalogue_of(ONE, child)
    with pytest.raises(TypeRefused, match="extend"):
        catalogue.take_out(ONE.owner, ONE.name, NOW, NOW)
    catalogue.take_out(child.owner, child.name, NOW, NOW)
    catalogue.take_out(ONE.owner, ONE.name, NOW, NOW)
    with pytest.raises(UnknownType):
        catalogue.named(ONE.name)


@given(st.permutations(["first", "second", "removal", "edit", "again"]))
def test_what_is_left_after_a_removal_does_not_depend_on_the_order_in_which_it_was_heard_of(order):
    """An edit by somebody else falls with the version it was made from; what its owner signs afterwards stays."""
    told = {
        "first": SignedType.sign(ONE, PITO, at=1.0),
        "second": SignedType.sign(TWO, PITO, at=3.0),
        "edit": SignedType.sign(EDITED, MET, EDIT_RIGHT, 3.0),
    }
    catalogue = Catalogue()
    for _ in range(2):  # whatever lacked something is heard of again
        for what in order:
            if what in told:
                with contextlib.suppress(TypeRefused):
                    catalogue.accept(told[what], NOW)
            else:
                catalogue.take_out(ONE.owner, ONE.name, 2.0 if what == "removal" else 1.5, NOW)
    assert [each.definition for each in catalogue] == [TWO]


def test_an_inherited_attribute_cannot_be_defined_again():
    child = EventType.new("uk.gov.pito.Chase", PITO.public, [("speed", AttributeType.FLOAT)], DRAW, ONE)
    with pytest.raises(TypeRefused, match="inherits"):
        catalogue_of(ONE, child)
