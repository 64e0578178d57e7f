"""Events are routed by keyed digests: readers select what they need and miss nothing, and values stay hidden."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest

from authz import Identity
from authz.predicate.filter import parse_filter
from bus.wire import subjects
from pubsub_core.carriage.routing import ALL_READ, CONFIRMED_SECONDS, MAX_SELECTED, SETTLE_SECONDS, Routing
from pubsub_core.errors import InvalidType, TypeRefused
from pubsub_core.events.event import Event
from pubsub_core.events.event_cipher import EventCipher
from pubsub_core.keys.plan import Plan
from pubsub_core.keys.ring import DataKey, KeyRing
from pubsub_core.types import edit
from pubsub_core.types.event_type import EventType
from pubsub_core.types.filter_binding import bind_filter
from pubsub_core.types.registry import Catalogue
from pubsub_core.types.signature import SignedType

OWNER = Identity.from_seed(b"o" * 32)
KIND = EventType.new(
    "uk.Plate", OWNER.public, [("plate", "string"), ("lane", "integer")], uuid4, routed="plate", bits=12
)
CHILD = EventType.new("uk.Fast", OWNER.public, [("speed", "float")], uuid4, KIND)
PLATE, LANE = (each.id for each in KIND.attributes)
PLAN = Plan.each([PLATE, LANE]).of(KIND.id)
GROUP = PLAN.group_of[PLATE].id


class Side:
    """What one broker knows."""

    def __init__(self, sealed: bool = False) -> None:
        self.now = 1000.0
        self.catalogue = Catalogue()
        for each in (KIND, CHILD):
            self.catalogue.accept(SignedType.sign(each, OWNER), self.now)
        self.vault = EventCipher(KeyRing(), [KIND.id] if sealed else [])
        self.routing = Routing(self.catalogue, self.vault, lambda: self.now)
        if sealed:
            self.vault.learn(KIND.id, PLAN)
            self.confirm()

    def confirm(self) -> None:
        self.vault.confirmed[KIND.id] = self.now

    def key(self, epoch: int, start: float, group: str = GROUP) -> None:
        self.vault.ring.add(DataKey(group, epoch, start, bytes([epoch]) * 32))

    def subject(self, plate: object, kind: EventType = KIND) -> str:
        event = Event(kind.id, kind.version, b"p", self.now, 1, {} if plate is None else {PLATE: plate})
        (route,) = self.routing.routes(kind.id, [event])
        return subjects.parcel("met", kind.place, *route)

    def selects(self, *plates: str) -> set[str]:
        return self.routing.filters(KIND.id, frozenset(plates))


def reads(filters: set[str], subject: str) -> bool:
    return any(each in filters for each in subjects.of_all_domains(subject))


@pytest.fixture
def pair() -> tuple[Side, Side]:
    sender, reader = Side(sealed=True), Side(sealed=True)
    for side in (sender, reader):
        side.key(1, 0.0)
    return sender, reader


def test_a_reader_selects_the_values_it_asks_for_and_few_others():
    sender, reader = Side(), Side()
    filters = reader.selects("a", "b")
    assert reads(filters, sender.subject("a"))
    assert reads(filters, sender.subject("b"))
    others = sum(reads(filters, sender.subject(str(number))) for number in range(1000))
    assert others < 20
    assert reads(reader.routing.filters(KIND.id, None), sender.subject("x"))


def test_what_a_sub_type_does_not_say_its_parent_does():
    sender, reader = Side(), Side()
    assert reader.routing.routed(CHILD.id) == PLATE
    filters = reader.routing.filters(CHILD.id, frozenset({"a"}))
    assert reads(filters, sender.subject("a", CHILD))
    assert not reads(filters, sender.subject("a"))


def test_digests_of_sealed_values_cannot_be_computed_without_the_key(pair):
    sender, reader = pair
    stranger = Side(sealed=True)
    stranger.key(1, 0.0)
    stranger.vault.ring.at(GROUP, 1)._secret[:] = b"?" * 32
    for plate in "abc":
        subject = sender.subject(plate)
        assert reads(reader.selects(plate), subject)
        assert not reads(stranger.selects(plate), subject)
        assert plate not in subject.split(".")[-1:]
    keyless = Side(sealed=True)
    assert keyless.selects("a") == keyless.routing.filters(KIND.id, None), "it reads everything"


def test_a_new_key_is_routed_by_when_every_reader_that_selects_has_it(pair):
    sender, reader = pair
    sender.now = reader.now = 2000.0
    reader.confirm()
    sender.key(2, 2000.0)
    before = sender.subject("a")
    assert reads(reader.selects("a"), before)
    while reader.now < 2000.0 + 2 * SETTLE_SECONDS:
        sender.now = reader.now = reader.now + 1
        assert reads(reader.selects("a"), sender.subject("a")), "also to a reader that cannot ask for keys"
    assert sender.subject("a") != before
    reader.key(2, 2000.0)
    reader.confirm()
    assert len(reader.selects("a")) > 1
    assert reads(reader.selects("a"), sender.subject("a"))
    assert CONFIRMED_SECONDS < SETTLE_SECONDS


def test_another_plan_is_routed_by_when_every_reader_that_selects_knows_it(pair):
    sender, reader = pair
    assert sender.subject("a") != subjects.parcel("met", KIND.place)
    plan = Plan.whole(KIND.id, [PLATE, LANE]).of(KIND.id)
    sender.vault.learn(KIND.id, plan)
    sender.key(1, 0.0, plan.group_of[PLATE].id)
    for _ in range(int(SETTLE_SECONDS)):
        assert reads(reader.selects("a"), sender.subject("a"))
        sender.now = reader.now = reader.now + 1
    assert reads(reader.selects("a"), sender.subject("a")), "it reads everything by now"


def test_what_is_on_the_way_under_an_older_key_is_read_too(pair):
    sender, reader = pair
    subject = sender.subject("a")
    reader.key(2, 900.0)
    assert reads(reader.selects("a"), subject)


def test_what_travels_at_a_steady_pace_is_not_routed(pair):
    sender, reader = pair
    sender.vault.learn(KIND.id, Plan(PLAN.groups, pace=1.0))
    assert sender.subject("a") == subjects.parcel("met", KIND.place, *ALL_READ)
    assert reads(reader.selects("a"), sender.subject("a"))


def test_beyond_a_number_of_values_everything_is_read():
    side = Side()
    many = [str(number) for number in range(10 * MAX_SELECTED)]
    assert side.selects(*many) == side.routing.filters(KIND.id, None)


def test_events_without_the_value_have_a_route_of_their_own():
    sender, reader = Side(), Side()
    assert sender.subject(None) == sender.subject(None)
    assert reads(reader.routing.filters(KIND.id, None), sender.subject(None))


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("plate == 'a'", {"a"}),
        ("plate in ('a', 'b')", {"a", "b"}),
        ("plate == 'a' and lane > 1", {"a"}),
        ("plate in ('a', 'b') and plate in ('a')", {"a"}),
        ("lane == 1", None),
        ("plate == 'a' or lane == 1", None),
        ("not plate == 'a'", None),
        ("plate starts with 'a'", None),
        ("", None),
    ],
)
def test_the_values_that_a_filter_asks_for_are_those_without_which_it_does_not_hold(text, values):
    side = Side()
    bound = bind_filter(parse_filter(text), side.catalogue.names(KIND.version))
    assert side.routing.values(KIND.id, bound) == values


def test_an_owner_routes_by_an_attribute_whose_values_are_equal_or_not():
    with pytest.raises(InvalidType, match="`speed` is a float"):
        EventType.new("uk.X", OWNER.public, [("speed", "float")], uuid4, routed="speed")
    with pytest.raises(InvalidType, match="must be an attribute of its own"):
        EventType.new("uk.X", OWNER.public, [("speed", "float")], uuid4, routed="other")
    with pytest.raises(InvalidType, match="1 to 16"):
        EventType.new("uk.X", OWNER.public, [("a", "string")], uuid4, routed="a", bits=17)


def test_how_a_type_travels_is_the_same_in_all_its_versions():
    retyped = edit.Retyped(KIND.attributes[0], "integer")
    with pytest.raises(TypeRefused, match="routed"):
        edit.edits(KIND, edit.apply(KIND, [retyped]))
    ids = iter([UUID(PLATE), UUID(LANE)])
    other = EventType.new(
        KIND.name, OWNER.public, [("plate", "string"), ("lane", "integer")], lambda: next(ids)
    )
    with pytest.raises(TypeRefused, match="attributes only"):
        edit.edits(KIND, other)


def test_a_definition_that_says_nothing_of_its_carriage_is_what_it_was_before_there_was_a_choice():
    ids = iter([UUID(int=1)])
    plain = EventType.new("x.Y", OWNER.public, [("a", "string")], lambda: next(ids))
    assert plain.version == "2123e3e97d60895a8e130fe2c3b5a5ba"
