"""What a definition may be."""

from __future__ import annotations

import msgspec
import pytest

from pubsub_core.errors import InvalidType
from pubsub_core.types.event_type import Attribute, AttributeType
from tests.pubsub_core.kinds import ids, sighting


def test_a_new_type_has_uuids_of_its_own_for_itself_its_version_and_each_attribute():
    kind = sighting()
    drawn = [kind.id, kind.version, *(each.id for each in kind.attributes)]
    assert len(set(drawn)) == 6


@pytest.mark.parametrize("name", ["", "a..b", ".a", "a.", "1a", "a b", "a.*", "x" * 600])
def test_a_name_that_is_not_words_joined_by_dots_is_refused(name):
    with pytest.raises(InvalidType, match="name"):
        sighting(name=name)


def test_two_attributes_of_one_name_or_one_uuid_are_refused():
    kind = sighting()
    twin = Attribute("numberplate", ids()().hex.replace("1", "f"), AttributeType.STRING)
    for extra in (twin, msgspec.structs.replace(kind.attributes[0], name="other")):
        with pytest.raises(InvalidType, match="twice"):
            msgspec.structs.replace(kind, attributes=(*kind.attributes, extra))


def test_a_uuid_has_one_spelling():
    with pytest.raises(InvalidType, match="UUID"):
        Attribute("a", ids()().hex.upper() + "A", AttributeType.STRING)


def test_an_owner_that_is_no_key_is_refused():
    with pytest.raises(InvalidType, match="owner"):
        msgspec.structs.replace(sighting(), owner="pito")
