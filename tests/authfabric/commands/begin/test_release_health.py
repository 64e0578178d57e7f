"""The doctor says of a store that is empty, damaged, full or of two lines how it is, and what to do."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from authfabric.commands.begin import release_health
from authfabric.commands.begin.release_health import Finding
from authz.release import sign_release
from bus import Connection, NatsServer
from bus.stores import ReleaseStore
from bus.wire import CONTENT, RELEASES
from tests.pdp.releases.test_restorer_service import ANN, World


@pytest.fixture
async def world(tmp_path, monkeypatch) -> AsyncIterator[World]:
    monkeypatch.setattr(release_health, "LISTEN_SECONDS", 0.0)  # there are no members
    async with NatsServer(jetstream=tmp_path / "store") as server, Connection(server.url) as bus:
        yield World(server, bus, tmp_path)


async def examine(world: World) -> dict[str, Finding]:
    return {each.about: each for each in await release_health.releases(world.bus, "shop", {ANN.public})}


async def test_a_store_without_a_first_release_is_no_problem_and_named(world):
    found = await examine(world)
    assert found["policy store"] == Finding("policy store", True, "`shop` has no release yet")
    await world.push("bob")
    found = await examine(world)
    assert "is at release 1" in found["policy store"].found
    assert found["room in the store"].well


async def test_a_store_with_another_release_of_the_same_number_is_found_out(world):
    await world.push("bob")
    second = (await world.push("cal")).released
    other = sign_release(replace(second.release, message="on another line"), ANN)
    await ReleaseStore(world.bus).mark("shop", other)
    found = (await examine(world))["policy store"]
    assert not found.well
    assert "has another line of releases, up to release 2" in found.found
    assert "policy restore" in found.do


@pytest.mark.parametrize("index", [True, False], ids=["with its index", "without its index"])
async def test_a_damaged_newest_release_is_found_out(world, index):
    await world.push("bob")
    await world.push("cal")
    await world.damage(RELEASES, index)
    found = (await examine(world))["policy store"]
    assert not found.well
    assert "policy restore" in found.do


async def test_a_store_that_takes_nothing_more_is_called_full(world):
    await world.push("bob")
    js = world.bus.jetstream()
    config = (await js.stream_info(f"KV_{CONTENT}")).config
    config.max_bytes = 4096
    await js.update_stream(config)
    found = await examine(world)
    assert found["policy store"].well
    assert not found["room in the store"].well
    assert "make room" in found["room in the store"].do
