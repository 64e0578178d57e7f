"""Attacks on role services: only the key of a session can use it, and nothing can be said twice."""

from __future__ import annotations

import secrets
from time import time

import pytest

from bus.services.role_client import RoleRefused
from bus.stores.record_store import RecordStore
from bus.wire.role_messages import Activate, Begin, Command, End, command_seal
from bus.wire.subjects import ROLES
from pdp.oasis.errors import CommandRefused
from pdp.sessions.record import CHALLENGE_SECONDS, Challenge, Seals
from tests.pdp.sessions.role_world import ANN, BOB, EVE, HR, SERVICE, employed
from tests.waiting import eventually


async def test_a_name_is_only_for_its_keys_and_a_key_may_go_without_one(world):
    async with world.service():
        for name, identity in (("ann", EVE), ("cyd", EVE), ("nobody", EVE), (str(ANN.public), EVE)):
            with pytest.raises(RoleRefused, match="is not the key of"):
                await world.client(identity).begin(name)
        for identity in (BOB, EVE):
            await (await world.client(identity).begin("bob")).activate("user")
        stranger = await world.client(HR).begin()
        assert await stranger.activate("user") == f"user({HR.public})"
        assert (await world.told(str(HR.public)))[0] == [f"user({HR.public})"]


async def test_a_stolen_session_id_is_of_no_use_without_its_key(world):
    async with world.service():
        session = await world.doctor()
        stolen = world.client(EVE).session(session.id)
        for deed in (
            stolen.activate("user"),
            stolen.deactivate("doctor"),
            stolen.roles(),
            stolen.appoint("nurse(bob)", "bob"),
            stolen.revoke(employed("ann")),
            stolen.end(),
        ):
            with pytest.raises(RoleRefused, match="is not of the key"):
                await deed
        assert await session.roles() == ("user(ann)", "doctor(ann)")


async def test_what_was_said_once_cannot_be_said_again(world):
    seal = command_seal("default")
    async with world.service() as service:
        begin = seal.sign(Command((await world.say(b"")).challenge, Begin("ann")), ANN)
        session = (await world.say(begin)).session
        activate = seal.sign(Command((await world.say(b"")).challenge, Activate(session, "user")), ANN)
        assert (await world.say(activate)).role == "user(ann)"
        assert (await world.say(begin)).problem == "this was said before"
        assert (await world.say(activate)).problem == "something newer was said in the session"
        ann = world.client(ANN).session(session)
        assert await ann.roles() == ("user(ann)",)
        await ann.end()
        assert (await world.say(begin)).problem == "this was said before"
        async with world.service():  # nor to another
            for _ in range(8):
                assert (await world.say(begin)).problem == "this was said before"
        assert len(service.keeper) == 0


async def test_a_service_that_has_not_heard_of_a_session_does_not_begin_it_a_second_time(world, monkeypatch):
    seal = command_seal("default")
    async with world.service() as one, world.service() as lagging:
        read = lagging._read_new
        monkeypatch.setattr(lagging, "_read_new", _nothing)
        begin = seal.sign(Command(one._challenge().challenge, Begin("ann")), ANN)
        session = (await one._do(begin)).session
        await one._do(seal.sign(Command(one._challenge().challenge, End(session)), ANN))
        monkeypatch.setattr(lagging, "_read_new", read)
        with pytest.raises(CommandRefused, match="at the same time"):
            await lagging._do(begin)
        assert len(one.keeper) == len(lagging.keeper) == 0


async def _nothing() -> None: ...


async def test_only_a_fresh_challenge_of_this_service_can_be_answered(world):
    seal = command_seal("default")
    mine, old = Challenge("n1", time()), Challenge("n2", time() - CHALLENGE_SECONDS - 1)
    async with world.service():
        for challenge, problem in (
            (b"junk", "answers no challenge"),
            (Seals("default", EVE).sign_challenge(mine), "answers no challenge"),
            (Seals("other", SERVICE).sign_challenge(mine), "answers no challenge"),
            (Seals("default", SERVICE).sign_challenge(old), "too old"),
        ):
            assert problem in (await world.say(seal.sign(Command(challenge, Begin("ann")), ANN))).problem
        fresh = Command((await world.say(b"")).challenge, Begin("ann"))
        assert (await world.say(command_seal("other").sign(fresh, ANN))).problem
        assert (await world.say(b"junk")).problem


@pytest.mark.parametrize("forged", ["holder", "issuer", "signature", "junk"])
async def test_a_certificate_that_is_not_what_it_claims_gives_nothing(world, forged):
    certificates = {
        "holder": employed("bob"),
        "issuer": employed("ann", by=EVE),
        "signature": employed("ann")[:-1] + bytes([employed("ann")[-1] ^ 1]),
        "junk": secrets.token_bytes(50),
    }
    async with world.service():
        session = await world.client(ANN).begin("ann")
        await session.activate("user")
        with pytest.raises(RoleRefused):
            await session.activate("doctor", certificates[forged])
        assert await session.roles() == ("user(ann)",)


async def test_what_strangers_put_into_the_store_is_not_used(world):
    async with world.service() as service:
        session = await world.doctor()
        store = RecordStore(world.bus, ROLES)
        (record,) = [each for each in await store.since(0, "default") if session.id in each.name]
        seals = Seals("default", EVE)
        await store.write("default.fact.1", seals.sign_record(service.keeper.session(session.id)), 0)
        await store.write("default.session.other", record.data, 0)
        await store.write(record.name, b"junk", record.number)
        await eventually(lambda: service._read > record.number + 2)
        assert (await world.told("ann"))[0] == ["user(ann)", "doctor(ann)"]
