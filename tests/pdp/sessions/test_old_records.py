"""Records of role services that were signed once are put back, on a secured server: nothing that ended counts again."""

from __future__ import annotations

import contextlib
from time import time

import pytest
from msgspec.structs import replace

import pdp.sessions.role_service as role_service
from bus.services.role_client import RoleRefused
from bus.stores.record_store import Record, RecordStore
from bus.stores.release_store import erase_entry
from bus.wire.subjects import ROLES
from pdp.sessions.record import SWEEP_SECONDS
from pdp.sessions.role_service import RoleService, RoleServing
from pdp.sessions.session_state import SessionState
from tests.pdp.sessions.role_world import ANN, HR, SERVICE, World, employed, policies
from tests.secured import PDP, secured
from tests.waiting import eventually

PROVIDER = "network: default\naction: connect|provide"


class SecuredWorld(World):
    """The same, where whoever comes must have a capability; and another service that provides attributes there."""

    def __init__(self, world, bus, thief) -> None:
        super().__init__(None, bus)
        self._world = world
        self.store = RecordStore(thief, ROLES)

    @contextlib.asynccontextmanager
    async def service(self, lease: float = 60.0, rules=None):
        async with (
            self._world.connect(PROVIDER) as bus,
            RoleService(bus, RoleServing(SERVICE, lease=lease)) as service,
        ):
            service.adopt(rules or policies(), 1)
            yield service

    async def stored(self, word: str) -> Record:
        (found,) = [each for each in await self.store.since(0, "default") if f".{word}." in each.name]
        return found

    async def put_back(self, service: RoleService, record: Record) -> None:
        """Write what was signed once over what stands there now, and wait until the service has written again."""
        await self.put(service, record.name, record.data)

    async def put(self, service: RoleService, name: str, data: bytes) -> None:
        found = await self.store.get(name)
        at = await self.store.write(name, data, found.number if found is not None and found.data else 0)
        await eventually(lambda: service._read > at)


@pytest.fixture
async def world(tmp_path):
    async with (
        secured(tmp_path) as (secure, _),
        secure.connect(PDP) as bus,
        secure.connect(PROVIDER) as thief,
    ):
        yield SecuredWorld(secure, bus, thief)


async def test_a_role_that_was_given_up_does_not_come_back_with_an_old_record(world):
    async with world.service() as service:
        session = await world.doctor()
        old = await world.stored("session")
        await session.deactivate("doctor")
        await world.put_back(service, old)
        assert (await world.told("ann"))[0] == ["user(ann)"]
        async with world.service() as later:
            assert later.keeper.activity("ann").roles == ("user(ann)",)


async def test_a_session_that_was_closed_does_not_open_again_with_an_old_record(world):
    async with world.service() as service:
        session = await world.doctor()
        old = await world.stored("session")
        await session.end()
        await world.put_back(service, old)
        with pytest.raises(RoleRefused, match="there is no open session"):
            await session.roles()
        async with world.service() as later:
            assert len(later.keeper) == 0


async def test_that_a_session_has_ended_is_final_whatever_is_stored_later(world):
    async with world.service() as service:
        session = await world.doctor()
        record = service.keeper.session(session.id)
    state = SessionState(time())
    state.adopt(policies().roles, policies().entities, 1)
    ended = replace(record, ended=True, number=7)
    state.take([ended])
    state.take([replace(record, number=8)])
    assert (len(state), state.knows(session.id)) == (0, True)
    assert state.unsaved == {record.name: ended}


@pytest.mark.parametrize("how", ["taken out", "junk"])
async def test_what_was_revoked_stays_so_though_its_record_is_taken_out(world, how):
    async with world.service() as service:
        await world.client(HR).revoke(employed("ann"))
        record = await world.stored("revoked")
        if how == "junk":
            await world.put(service, record.name, b"junk")
        else:
            await erase_entry(world.store._connection, ROLES, record.name)
            await eventually(lambda: service._read > record.number + 1)
    async with world.service():
        session = await world.client(ANN).begin("ann")
        await session.activate("user")
        with pytest.raises(RoleRefused, match="lacks"):
            await session.activate("doctor", employed("ann"))


async def test_what_is_put_where_something_will_be_revoked_keeps_nobody_from_revoking(world):
    async with world.service():
        await world.client(HR).revoke(employed("ann"))
        name = (await world.stored("revoked")).name
    await erase_entry(world.store._connection, ROLES, name)
    await world.store.write(name, b"junk", 0)
    async with world.service():
        await world.client(HR).revoke(employed("ann"))
    async with world.service():
        session = await world.client(ANN).begin("ann")
        await session.activate("user")
        with pytest.raises(RoleRefused, match="lacks"):
            await session.activate("doctor", employed("ann"))


async def test_a_fact_that_was_retracted_is_not_true_again_with_an_old_record(world, monkeypatch):
    async with world.service() as service:
        session, hr = await world.doctor(), world.client(HR)
        await hr.tell("treats(ann, p7)")
        old = await world.stored("fact")
        await hr.retract("treats(ann, p7)")
        await world.put_back(service, old)
        with pytest.raises(RoleRefused, match="lacks"):
            await session.activate("treating")
        monkeypatch.setattr(role_service, "SWEEP_EVERY", -1.0)
        monkeypatch.setattr(role_service, "time", lambda: time() + 2 * SWEEP_SECONDS)
        await eventually(lambda: not list(service.keeper.world))  # swept away
        await world.put_back(service, old)
        assert not [each for each in service.keeper.world if each.holds]
        async with world.service() as later:
            assert not [each for each in later.keeper.world if each.holds]
