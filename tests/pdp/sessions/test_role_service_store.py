"""What role services share through their store: several of them, newer policies, and a store that is away."""

from __future__ import annotations

import asyncio
import contextlib
from time import time

import pytest

import pdp.sessions.role_service as role_service
from bus.services.attribute_client import AttributesFailed
from bus.services.role_client import RoleRefused
from bus.stores.record_store import RecordStore
from bus.wire.subjects import ROLES
from pdp.sessions.session_state import SessionState
from tests.pdp.sessions.role_world import ANN, BOB, HR, RULES, employed, policies
from tests.waiting import eventually, once_it_works


class TestSeveral:
    """Several services share their sessions through the store."""

    async def test_what_is_said_to_one_counts_at_all(self, world):
        async with world.service() as one, world.service() as other, world.service() as third:
            several = (one, other, third)
            session = await world.doctor()
            hr = world.client(HR)
            await hr.tell("treats(ann, p7)")
            await session.activate("treating")
            full = ("user(ann)", "doctor(ann)", "treating(ann, p7)")
            await eventually(lambda: all(each.keeper.activity("ann").roles == full for each in several))
            await hr.retract("treats(ann, p7)")
            await eventually(lambda: all(each.keeper.activity("ann").roles == full[:2] for each in several))
            await hr.tell("treats(ann, p7)")
            await world.client(HR).revoke(employed("ann"))
            await eventually(lambda: all(each.keeper.activity("ann").roles == full[:1] for each in several))
            await session.end()
            await eventually(lambda: not any(len(each.keeper) for each in several))

    async def test_one_that_starts_later_goes_on_where_the_others_are(self, world):
        async with world.service():
            session = await world.doctor()
            hr = world.client(HR)
            await hr.set("hour", 9)
            await session.activate("onDuty")
            await session.activate("onCall")
            await hr.set("hour", 21)
            await hr.tell("treats(ann, p7)")
            await session.activate("treating")
            await hr.tell("treats(ann, p7)")  # stands behind the session in the store now
        async with world.service():
            assert await session.roles() == ("user(ann)", "doctor(ann)", "onCall(ann)", "treating(ann, p7)")
            await world.client(HR).revoke(employed("ann"))
            assert await session.roles() == ("user(ann)", "onCall(ann)")

    async def test_what_ended_while_none_was_there_to_see_it_is_over(self, world):
        async with world.service():
            session = await world.doctor()
            short = await world.client(BOB).begin("bob", seconds=0.001)
        fewer = policies(RULES.replace("user(u)*, appointment employed", "appointment employed"))
        async with world.service(rules=fewer):
            assert await session.roles() == ("user(ann)",)
            with pytest.raises(RoleRefused, match="there is no open session"):
                await short.roles()

    async def test_many_who_speak_in_one_session_at_once_are_all_heard(self, world):
        async with world.service(), world.service(), world.service():
            session = await world.doctor()
            hr = world.client(HR)
            await asyncio.gather(*(hr.tell(f"treats(ann, p{n})") for n in range(6)))
            for n in range(6):
                await session.activate(f"treating(ann, p{n})")
            assert len(await session.roles()) == 8


async def test_a_session_seen_under_newer_policies_is_not_spoken_of_before_they_are_known(world):
    async with world.service() as old, world.service() as new:
        session = await world.doctor()
        await eventually(lambda: len(old.keeper) == len(new.keeper) == 1)
        newer = policies(RULES + "doctor(d)* |- head(d)\n")
        new.adopt(newer, 2)
        await eventually(lambda: new.keeper.epoch == 2)
        while True:
            with contextlib.suppress(RoleRefused):
                await session.activate("head")
                break
        await eventually(lambda: old.keeper._ahead)
        with pytest.raises(role_service.RolesUnavailable):
            old.keeper.activity("ann")
        beside = SessionState(time())
        beside.take(old.keeper._ahead.values())
        beside.advance(time() + 13 * 3600)
        assert (beside.activity("ann").roles, beside.knows(session.id)) == ((), True)
        old.adopt(newer, 2)
        assert old.keeper.activity("ann").roles == ("user(ann)", "doctor(ann)", "head(ann)")


async def test_without_the_store_nothing_is_told_when_the_lease_is_over(world, monkeypatch):
    clock = [1000.0]
    monkeypatch.setattr(role_service, "monotonic", lambda: clock[0])
    async with world.service(lease=5.0) as service:
        await world.doctor()
        monkeypatch.setattr(service._store, "since", _away)
        clock[0] += 4.9
        told, seconds = await world.told("ann")
        assert told
        assert seconds <= 0.11
        clock[0] += 0.2
        await eventually(lambda: service.problem)
        with pytest.raises(AttributesFailed, match="the store does not answer: it is away"):
            await world.told("ann")


async def _away(*args: object) -> None:
    raise role_service.BusError("the store does not answer: it is away")


async def test_a_clock_that_is_ahead_for_a_while_brings_no_revoked_appointment_back(world, monkeypatch):
    revoked = employed("ann", "e9", seconds=3600)
    async with world.service() as service:
        await world.client(HR).revoke(revoked)
        await world.client(HR).retract("treats(ann, p7)")
        monkeypatch.setattr(role_service, "SWEEP_EVERY", -1.0)
        monkeypatch.setattr(role_service, "time", lambda: time() + 48 * 3600)
        await eventually(lambda: service.keeper.now > time() + 3600)
        store = RecordStore(world.bus, ROLES)

        async def swept() -> None:
            assert not [each for each in await store.since(0) if each.data and "fact" in each.name]

        await once_it_works(swept, AssertionError)
    monkeypatch.setattr(role_service, "time", time)
    async with world.service():
        session = await world.client(ANN).begin("ann")
        await session.activate("user")
        with pytest.raises(RoleRefused, match="lacks"):
            await session.activate("doctor", revoked)


async def test_a_clock_that_was_ahead_locks_nobody_out(world, monkeypatch):
    monkeypatch.setattr(role_service, "time", lambda: time() + 3600)
    async with world.service():
        early = await world.client(BOB).begin("bob")
        await world.client(HR).tell("treats(ann, p7)")
    monkeypatch.setattr(role_service, "time", time)
    async with world.service():
        session = await world.doctor()
        assert await session.activate("treating") == "treating(ann, p7)"
        await world.client(HR).retract("treats(ann, p7)")
        assert await session.roles() == ("user(ann)", "doctor(ann)")
        await early.activate("user")
        await early.end()


async def test_what_ended_long_ago_is_swept_away(world, monkeypatch):
    async with world.service():
        session = await world.doctor()
        hr = world.client(HR)
        await hr.tell("treats(ann, p7)")
        await hr.retract("treats(ann, p7)")
        await hr.tell("treats(ann, p8)")
        await hr.revoke(employed("ann", "e9", seconds=10))
        await session.end()
        monkeypatch.setattr(role_service, "SWEEP_EVERY", -1.0)
        monkeypatch.setattr(role_service, "REVOKED_SECONDS", 0.0)
        monkeypatch.setattr(role_service, "time", lambda: time() + 13 * 3600)
        store = RecordStore(world.bus, ROLES)

        async def the_only_one() -> str:
            (left,) = [each.name for each in await store.since(0) if each.data]
            return left

        assert (await once_it_works(the_only_one, ValueError)).startswith("default.fact.")
