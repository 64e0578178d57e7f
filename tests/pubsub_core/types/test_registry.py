"""Versions live side by side, and so do types of one name, each its owner's; no two share a UUID."""

from __future__ import annotations

import contextlib
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from authz.spki import encode_chain
from pubsub_core.errors import AmbiguousType, TypeRefused, UnknownType
from pubsub_core.types.edit import Added, Removed, Renamed, Retyped, apply, find
from pubsub_core.types.event_type import Attribute, AttributeType, EventType
from pubsub_core.types.registry import Catalogue
from pubsub_core.types.signature import SignedType
from pubsub_core.types.versions import reader
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
)
EDITED = apply(ONE, [Added(Attribute("lane", DRAW().hex, AttributeType.INTEGER))])
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


def test_types_of_one_name_are_told_apart_by_their_owners():
    """Where nobody says whose names count, a name that several use means none of them."""
    other = EventType.new(ONE.name, THIEF.public, [], DRAW)
    catalogue = catalogue_of(ONE)
    assert catalogue.accept(SignedType.sign(other, THIEF), NOW) == catalogue.newest(other.id)
    assert catalogue.newest(ONE.id) == ONE
    assert catalogue.label(ONE) == f"{PITO.public}/{ONE.name}"
    with pytest.raises(AmbiguousType, match="is a type of"):
        catalogue.named(ONE.name)
    catalogue.take_out(other.owner, other.name, NOW, NOW)
    assert catalogue.named(ONE.name) == ONE


def test_nobody_takes_the_uuids_of_a_type_of_somebody_else():
    """Whichever comes first."""
    stolen = EventType.new("x.Y", THIEF.public, [], DRAW)
    for taken, problem in (
        ({"id": ONE.id}, "UUID belongs to another type"),
        ({"version": ONE.version}, "UUID belongs to another definition"),
    ):
        catalogue = Catalogue()
        with pytest.raises(TypeRefused, match=problem):
            catalogue.accept(SignedType.sign(structs.replace(stolen, **taken), THIEF), NOW)
        assert catalogue.accept(SignedType.sign(ONE, PITO), NOW) == ONE


def test_whoever_extends_a_type_does_not_keep_its_owner_from_taking_it_out():
    right = encode_chain(chain_of("type: uk.gov.pito.*\naction: extend"))
    child = EventType.new("uk.gov.met.Chase", MET.public, [], DRAW, ONE, right)
    catalogue = catalogue_of(ONE)
    catalogue.accept(SignedType.sign(child, MET), NOW)
    catalogue.take_out(ONE.owner, ONE.name, NOW, NOW)
    assert list(catalogue) == []
    with pytest.raises(UnknownType):
        catalogue.named(child.name)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_of_two_edits_the_one_whose_owner_signed_last_is_the_newest(order):
    """In whatever order they are heard of, and whatever time a delegate says it is."""
    told = [
        SignedType.sign(ONE, PITO, at=1.0),
        SignedType.sign(EDITED, MET, EDIT_RIGHT, 9.0),
        SignedType.sign(TWO, PITO, at=3.0),
    ]
    catalogue = Catalogue()
    for _ in range(2):
        for number in order:
            with contextlib.suppress(TypeRefused):
                catalogue.accept(told[number], NOW)
    assert catalogue.named(ONE.name) == TWO
    assert len(list(catalogue)) == 3


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
