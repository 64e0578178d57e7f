"""What waits for keys: each sender by itself, in order, so much of it and so long."""

from __future__ import annotations

import pytest

from pubsub_core.carriage import awaiting_keys
from pubsub_core.carriage.awaiting_keys import MAX_LATE, MAX_LATE_BYTES, PATIENCE, Late, Sealed
from pubsub_core.keys.errors import KeyAwaited


class Scene:
    """Things that are opened by their names, when the keys are there."""

    def __init__(self) -> None:
        self.late = Late[str]()
        self.keys: set[str] = set()
        self.given_up = self.number = 0

    def keep(self, sender: str, name: str, size: int = 1, now: float = 0.0) -> bool:
        self.number += 1
        return self.late.keep((sender, "type"), Sealed(lambda: self._open(name), size, self.number), now)

    def _open(self, name: str) -> list[str]:
        if name not in self.keys:
            raise KeyAwaited
        return [name]

    def open(self, now: float = 1.0) -> list[str]:
        return list(self.late.open(now, self._give_up))

    def _give_up(self, sender: tuple[str, str]) -> None:
        self.given_up += 1


@pytest.fixture
def scene():
    return Scene()


@pytest.mark.parametrize(("most", "size"), [(MAX_LATE, 1), (4, MAX_LATE_BYTES // 4)])
def test_a_sender_that_floods_takes_no_room_from_others(scene, most, size):
    kept = [scene.keep("flooder", str(number), size) for number in range(most + 2)]
    assert kept == [True] * most + [False] * 2
    assert scene.keep("other", "other", size)
    scene.keys |= {"other", "0"}
    assert scene.open() == ["0", "other"]
    assert scene.keep("flooder", "again", size), "there is room when something was opened"
    assert not scene.keep("flooder", "more", size)


def test_what_can_be_opened_waits_for_what_the_same_sender_has_sent_before_and_for_nothing_else(scene):
    for sender, name in (("a", "a1"), ("b", "b1"), ("a", "a2")):
        scene.keep(sender, name)
    scene.keys |= {"a2", "b1"}
    assert scene.open() == ["b1"]
    assert scene.late.waits(("a", "type"))
    assert not scene.late.waits(("b", "type"))
    scene.keys.add("a1")
    assert scene.open() == ["a1", "a2"]
    assert not scene.late.waits(("a", "type"))


def test_what_keys_do_not_come_for_is_given_up_and_what_follows_it_is_not(scene):
    scene.keep("a", "a1")
    scene.keep("a", "a2", now=2.0)
    assert scene.open(PATIENCE + 1.0) == []
    assert scene.given_up == 1
    scene.keys |= {"a1", "a2"}
    assert scene.open() == ["a2"]


def test_what_must_wait_again_while_it_is_opened_is_before_what_follows_it(scene):
    def open_() -> list[str]:
        assert scene.keep("a", "inner")
        return ["outer"]

    scene.late.keep(("a", "type"), Sealed(open_, 1, 1), 0.0)
    scene.keep("a", "next")
    scene.keys.add("next")
    assert scene.open() == ["outer"]
    scene.keys.add("inner")
    assert scene.open() == ["inner", "next"]


def test_what_was_opened_takes_no_room(scene, monkeypatch):
    monkeypatch.setattr(awaiting_keys, "MAX_LATE_BYTES", 2)
    for name in ("1", "2"):
        assert scene.keep("a", name)
    scene.keys.add("1")
    scene.open()
    assert scene.keep("a", "3")
    assert not scene.keep("a", "4")


def test_the_oldest_thing_that_waits_is_known_by_its_number(scene):
    assert scene.late.oldest() is None
    for sender, name in (("a", "a1"), ("b", "b1"), ("a", "a2")):
        scene.keep(sender, name)
    assert scene.late.oldest() == 1
    scene.keys |= {"a1"}
    scene.open()
    assert scene.late.oldest() == 2
