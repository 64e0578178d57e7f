"""Attributes are asked for in batches, remembered as long as they last, and never waited for longer than allowed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping

import pytest

from authz import Identity
from authz.errors import InvalidSyntax
from authz.predicate import Path
from bus.nats.connection import Connection
from bus.services.attribute_client import (
    PER_MESSAGE,
    EntityAttributes,
    announce_changes,
    hearing_changes,
    serve_attributes,
)
from pdp.attributes.bus_provider import BusProvider
from pdp.attributes.file_provider import BEHIND_SECONDS, FileProvider
from pdp.attributes.provider_reader import FileText, ServiceText, read_providers
from pdp.attributes.providers import PAUSE_SECONDS, CachingProvider, Known, ProviderFailed
from pdp.replica.metrics import ProviderMetrics
from tests.waiting import once_it_works

DEPARTMENT = Path("subject", ("department",))
SERVICE, EVE = Identity.generate(), Identity.generate()


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Table:
    """A provider that knows some, and remembers what it was asked."""

    name = "table"
    provides = frozenset({DEPARTMENT})

    def __init__(self, **known: Known) -> None:
        self.known = known
        self.asked: list[list[str]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.problem: Exception | None = None

    async def look_up(self, root: str, ids: frozenset[str]) -> Mapping[str, Known]:
        self.asked.append(sorted(ids))
        await self.gate.wait()
        if self.problem:
            raise self.problem
        return {each: self.known[each] for each in ids if each in self.known}


@pytest.fixture
def clock() -> Clock:
    return Clock()


def remembering(table: Table, clock: Clock, seconds: float = 20.0) -> CachingProvider:
    return CachingProvider(table, clock, seconds, lifetime=60.0)


async def test_what_is_remembered_is_asked_once_and_again_when_it_is_over(clock):
    table = Table(ann=Known({"department": "a"}, float("inf")))
    memory = remembering(table, clock)
    for _ in range(3):
        assert (await memory.look_up("subject", ["ann", "bob"]))["ann"].attributes == {"department": "a"}
    clock.now += 59.9
    await memory.look_up("subject", ["ann", "eve"])
    clock.now += 0.1
    await memory.look_up("subject", ["ann"])
    assert table.asked == [["ann", "bob"], ["eve"], ["ann"]]


async def test_nothing_lasts_longer_than_the_lifetime_or_than_the_provider_says(clock):
    table = Table(ann=Known({}, clock.now + 5), bob=Known({}, float("inf")))
    found = await remembering(table, clock).look_up("subject", ["ann", "bob", "nobody"])
    assert {name: each.until - clock.now for name, each in found.items()} == {
        "ann": 5,
        "bob": 60,
        "nobody": 60,
    }
    assert found["nobody"].attributes == {}


async def test_what_several_ask_for_at_once_is_asked_once(clock):
    table = Table(ann=Known({"department": "a"}, float("inf")))
    table.gate.clear()
    memory = remembering(table, clock)
    several = [asyncio.create_task(memory.look_up("subject", ["ann", extra])) for extra in ("b", "c", "b")]
    await asyncio.sleep(0)
    table.gate.set()
    for found in await asyncio.gather(*several):
        assert found["ann"].attributes == {"department": "a"}
    assert table.asked == [["ann", "b"], ["c"]]


async def test_one_who_stops_waiting_does_not_take_the_answer_from_the_others(clock):
    table = Table()
    table.gate.clear()
    memory = remembering(table, clock)
    first, second = (asyncio.create_task(memory.look_up("subject", ["ann"])) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    table.gate.set()
    assert "ann" in await second


async def test_an_answer_that_takes_too_long_is_a_failure(clock):
    table = Table()
    table.gate.clear()
    with pytest.raises(ProviderFailed, match=r"no answer within 0\.01 s"):
        await remembering(table, clock, seconds=0.01).look_up("subject", ["ann"])


async def test_after_a_failure_nobody_is_asked_for_a_while(clock):
    table = Table()
    table.problem = ProviderFailed("table", "it broke")
    memory = remembering(table, clock)
    for _ in range(3):
        with pytest.raises(ProviderFailed, match="it broke"):
            await memory.look_up("subject", ["ann"])
    assert len(table.asked) == 1
    clock.now += PAUSE_SECONDS
    table.problem = None
    assert "ann" in await memory.look_up("subject", ["ann"])
    assert (memory.lookups, memory.failures) == (2, 1)


async def test_what_is_said_to_have_changed_is_asked_anew_and_no_older_answer_is_remembered(clock):
    table = Table(ann=Known({"department": "a"}, float("inf")), bob=Known({}, float("inf")))
    memory = remembering(table, clock)
    await memory.look_up("subject", ["ann", "bob"])
    memory.forget("subject", ["ann", "nobody"])
    table.gate.clear()
    under_way = asyncio.create_task(memory.look_up("subject", ["ann", "bob"]))
    await asyncio.sleep(0)
    table.known["ann"] = Known({"department": "b"}, float("inf"))
    memory.forget("subject", ["ann"])
    table.gate.set()
    await under_way
    assert (await memory.look_up("subject", ["ann"]))["ann"].attributes == {"department": "b"}
    assert table.asked == [["ann", "bob"], ["ann"], ["ann"]]


def _unreadable(memory: CachingProvider) -> dict[str, float]:
    metrics = {each.name: each for each in ProviderMetrics([memory]).collect()}
    return {each.labels["provider"]: each.value for each in metrics["authfabric_provider_unreadable"].samples}


class TestFile:
    TEXT = "subjects: {ann: {department: %s}}\ncontext: {alert: true}\n"

    async def test_a_file_is_read_anew_when_it_changes(self, tmp_path, clock):
        file = tmp_path / "people.yaml"
        file.write_text(self.TEXT % "a")
        provider = FileProvider(file, frozenset({DEPARTMENT}), clock, 60.0)
        assert await provider.look_up("subject", frozenset({"ann", "bob"})) == {
            "ann": Known({"department": "a"}, clock.now + 60)
        }
        assert (await provider.look_up("context", frozenset({""})))[""].attributes == {"alert": True}
        file.write_text(self.TEXT % "other")

        async def look_up() -> None:
            found = await provider.look_up("subject", frozenset({"ann"}))
            assert found["ann"].attributes == {"department": "other"}

        await once_it_works(look_up, AssertionError)

    async def test_the_old_contents_are_served_until_the_new_are_read(self, tmp_path, clock):
        file, slow, new = (tmp_path / name for name in ("people.yaml", "slow", "new"))
        file.write_text(self.TEXT % "a")
        memory = CachingProvider(FileProvider(file, frozenset({DEPARTMENT}), clock, 60.0), clock, 0.5, 60.0)
        assert (await memory.look_up("subject", ["ann"]))["ann"].attributes == {"department": "a"}
        os.mkfifo(slow)  # reading it lasts until its writer is done
        with slow.open("r+b", buffering=0) as writer:
            slow.replace(file)
            clock.now += 60
            for _ in range(3):
                found = (await memory.look_up("subject", ["ann"]))["ann"]
                assert found == Known({"department": "a"}, clock.now + BEHIND_SECONDS)
                clock.now += BEHIND_SECONDS
            new.write_text(self.TEXT % "b")
            writer.write(new.read_bytes())
            new.replace(file)

        async def look_up() -> None:
            clock.now += BEHIND_SECONDS
            found = (await memory.look_up("subject", ["ann"]))["ann"]
            assert found == Known({"department": "b"}, clock.now + 60)

        await once_it_works(look_up, AssertionError)
        assert memory.failures == 0

    @pytest.mark.parametrize("text", ["people: {}", "subjects: [ann]", "{", None])
    async def test_a_file_that_breaks_is_unavailable_until_it_is_mended(self, tmp_path, clock, text, caplog):
        file = tmp_path / "people.yaml"
        file.write_text(self.TEXT % "a")
        memory = CachingProvider(FileProvider(file, frozenset({DEPARTMENT}), clock, 60.0), clock, 20.0, 60.0)
        await memory.look_up("subject", ["ann"])
        assert _unreadable(memory) == {str(file): 0.0}
        file.unlink() if text is None else file.write_text(text)

        async def fails() -> None:
            clock.now += 60
            with pytest.raises(ProviderFailed):
                await memory.look_up("subject", ["ann"])

        await once_it_works(fails, pytest.fail.Exception)  # until that was noticed, the old contents count
        assert _unreadable(memory) == {str(file): 1.0}
        assert [each.getMessage().partition(":")[0] for each in caplog.records] == [
            f"the attribute file `{file}` cannot be read"
        ]
        file.write_text(self.TEXT % "mended")
        clock.now += 60
        assert (await memory.look_up("subject", ["ann"]))["ann"].attributes == {"department": "mended"}
        assert _unreadable(memory) == {str(file): 0.0}

    @pytest.mark.parametrize("text", ["people: {}", "subjects: [ann]", "{", None])
    async def test_a_file_that_cannot_be_read_is_a_failure(self, tmp_path, clock, text):
        file = tmp_path / "people.yaml"
        if text is not None:
            file.write_text(text)
        with pytest.raises(ProviderFailed):
            await FileProvider(file, frozenset(), clock, 60.0).look_up("subject", frozenset({"ann"}))


class TestService:
    def provider(self, bus: Connection, clock: Clock, seconds: float = 20.0) -> BusProvider:
        return BusProvider(bus, "hr", SERVICE.public, frozenset({DEPARTMENT}), clock, seconds)

    async def test_a_service_is_asked_for_the_names_it_provides_in_parts_it_can_bear(self, bus, clock):
        asked = []

        async def look_up(root, ids, names):
            asked.append((root, len(ids), list(names)))
            return {each: EntityAttributes({"department": each.upper()}, 5.0) for each in ids}

        ids = frozenset(f"u{n}" for n in range(PER_MESSAGE + 1))
        async with serve_attributes(bus, "hr", SERVICE, look_up):
            found = await self.provider(bus, clock).look_up("subject", ids)
        assert found["u7"] == Known({"department": "U7"}, clock.now + 5)
        assert len(found) == len(ids)
        assert sorted(asked) == [("subject", 1, ["department"]), ("subject", PER_MESSAGE, ["department"])]

    async def test_a_service_that_fails_or_is_not_there_is_a_failure(self, bus, clock):
        with pytest.raises(ProviderFailed, match="nobody listens"):
            await self.provider(bus, clock).look_up("subject", frozenset({"ann"}))

        async def look_up(root, ids, names):
            raise KeyError(root)

        async with serve_attributes(bus, "hr", SERVICE, look_up):
            with pytest.raises(ProviderFailed, match="KeyError"):
                await self.provider(bus, clock).look_up("subject", frozenset({"ann"}))

    async def test_what_a_stranger_answers_is_not_taken(self, bus, clock):
        async def look_up(root, ids, names):
            return {each: EntityAttributes({"department": "boss"}) for each in ids}

        async with serve_attributes(bus, "hr", EVE, look_up):
            with pytest.raises(ProviderFailed, match="no valid answer"):
                await self.provider(bus, clock, 0.2).look_up("subject", frozenset({"ann"}))

    async def test_an_answer_to_another_question_is_not_taken(self, bus, clock):
        async def look_up(root, ids, names):
            return {"ann": EntityAttributes({"department": "old"})}

        heard: list[bytes] = []
        async with serve_attributes(bus, "hr", SERVICE, look_up):
            expect = bus.expect

            def overhear(handler):
                return expect(lambda data, nobody: (heard.append(data), handler(data, nobody)))

            bus.expect = overhear
            await self.provider(bus, clock).look_up("subject", frozenset({"ann"}))
            bus.expect = expect
        await bus.listen("af.attributes.default.hr", lambda s, reply, d, h: bus.send(reply, heard[0]))
        with pytest.raises(ProviderFailed, match="no valid answer"):
            await self.provider(bus, clock, 0.2).look_up("subject", frozenset({"ann"}))

    async def test_a_service_says_what_has_changed_and_a_stranger_cannot(self, bus):
        heard: list[tuple[str, list[str]]] = []
        ids = [f"u{n}" for n in range(PER_MESSAGE + 1)]
        async with hearing_changes(bus, "hr", SERVICE.public, lambda *said: heard.append(said)):
            announce_changes(bus, "hr", EVE, "subject", ["ann"])
            bus.send("af.attributes.default.hr.changed", b"junk")
            announce_changes(bus, "hr", SERVICE, "subject", ids)
            await bus.flush()
        assert heard == [("subject", ids[:PER_MESSAGE]), ("subject", ids[PER_MESSAGE:])]


def test_providers_are_read_from_a_file(tmp_path):
    text = f"""\
- file: people.yaml
  provides: [subject.department]
- file: services.yaml
  under: "service:"
  provides: [subject.department]
- service: hr
  key: {SERVICE.public}
  provides: [subject.roles, context.alert]
  lifetime: 10
  timeout: 0.2
"""
    file, other, service = read_providers(text, "attributes.yaml", tmp_path)
    assert (file.origin, file.lifetime) == (FileText(tmp_path / "people.yaml"), 60.0)
    assert (file.under, other.under, other.provides) == ("", "service:", file.provides)
    assert service.origin == ServiceText("hr", SERVICE.public)
    assert service.provides == {Path("subject", ("roles",)), Path("context", ("alert",))}
    assert (service.lifetime, service.timeout) == (10.0, 0.2)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("- {file: a.yaml, provides: [department]}", "1:29"),
        ("- {file: a.yaml, provides: [subject.a, subject.a]}", "1:40"),
        ("- {file: a.yaml, service: b, provides: [subject.a]}", "1:3"),
        ("- {service: b, provides: [subject.a]}", "1:3"),
        ("- {service: b, key: x, provides: [subject.a]}", "1:16"),
        ("- {file: a.yaml, provides: []}", "1:18"),
        (
            "[{file: a, under: /b/, provides: [object.c]}, {file: d, under: /b/, provides: [object.c]}]",
            "1:80",
        ),
        ("- {file: a.yaml, under: /b/, provides: [context.c]}", "1:18"),
        ("- {file: a.yaml, provides: [subject.a], lifetime: 0}", "1:41"),
    ],
)
def test_a_provider_that_cannot_be_meant_is_refused_where_it_stands(text, place, tmp_path):
    with pytest.raises(InvalidSyntax, match=f"^attributes.yaml:{place}: "):
        read_providers(text, "attributes.yaml", tmp_path)
