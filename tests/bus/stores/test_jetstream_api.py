"""Asking JetStream while nobody leads: what was not answered is asked again."""

from __future__ import annotations

from time import monotonic

import pytest

from bus.errors import NoResponders, ReplyTimeout
from bus.stores import jetstream_api
from bus.stores.jetstream_api import ask_again
from tests.waiting import PATIENCE


@pytest.fixture(autouse=True)
def soon(monkeypatch) -> None:
    monkeypatch.setattr(jetstream_api, "AGAIN_SECONDS", 0.02)


async def test_what_nobody_answers_is_asked_again_until_somebody_does(bus):
    asked: list[str] = []

    def answer(subject: str, reply: str, data: bytes, headers: bytes) -> None:
        asked.append(reply)
        if len(asked) == 3:
            bus.send(reply, data)

    await bus.listen("leader", answer)
    assert await ask_again(bus, "leader", b"who", PATIENCE) == b"who"
    assert not bus._replies._expected, "nothing is awaited any more"


async def test_the_first_question_may_be_answered_late(bus):
    asked: list[str] = []

    def answer(subject: str, reply: str, data: bytes, headers: bytes) -> None:
        asked.append(reply)
        if len(asked) == 3:
            bus.send(asked[0], b"late")

    await bus.listen("leader", answer)
    assert await ask_again(bus, "leader", b"who", PATIENCE) == b"late"


async def test_after_the_time_it_gives_up_and_where_nobody_listens_at_once(bus):
    await bus.listen("silent", lambda *message: None)
    start = monotonic()
    with pytest.raises(ReplyTimeout):
        await ask_again(bus, "silent", b"", 0.1)
    assert monotonic() - start >= 0.1
    with pytest.raises(NoResponders):
        await ask_again(bus, "nobody", b"", PATIENCE)
