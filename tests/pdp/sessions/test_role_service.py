"""Role services on a real bus: roles are activated by proof, and end with whatever they rest on."""

from __future__ import annotations

from time import time

import pytest

from bus.services.attribute_client import hearing_changes
from bus.services.role_client import RoleRefused, look_at_session, service_name
from tests.pdp.sessions.role_world import ANN, BOB, EVE, HR, PEOPLE, RULES, SERVICE, employed, policies
from tests.waiting import eventually


async def test_roles_are_activated_by_proof_and_told_to_decision_points(world):
    async with world.service(lease=60.0):
        assert await world.told("ann") == ([], pytest.approx(60, abs=30))
        session = await world.client(ANN).begin("ann")
        with pytest.raises(RoleRefused, match=r"roles#2 lacks `user\(\"ann\"\)`|lacks `user"):
            await session.activate("doctor")
        assert await session.activate("user") == "user(ann)"
        with pytest.raises(RoleRefused, match="lacks `appointment employed"):
            await session.activate("doctor")
        assert await session.activate("doctor", employed("ann", seconds=10)) == "doctor(ann)"
        assert await session.roles() == ("user(ann)", "doctor(ann)")
        told, seconds = await world.told("ann")
        assert told == ["user(ann)", "doctor(ann)"]
        assert seconds <= 10
        assert list(await session.deactivate("user")) == [
            f"`user(ann)` in session `{session.id}`: given up",
            f"`doctor(ann)` in session `{session.id}`: `user(ann)` is no longer active",
        ]
        with pytest.raises(RoleRefused, match=r"`nurse\(ann\)` is not active"):
            await session.deactivate("nurse(ann)")
        await session.activate("user")
        await session.end()
        assert (await world.told("ann"))[0] == []
        with pytest.raises(RoleRefused, match="there is no open session"):
            await session.roles()


async def test_facts_count_from_trusted_keys_only_and_roles_fall_with_them(world):
    async with world.service():
        session = await world.doctor()
        with pytest.raises(RoleRefused, match="no rule trusts"):
            await world.client(EVE).tell("treats(ann, p7)")
        hr = world.client(HR)
        await hr.tell("treats(ann, p7)")
        await hr.set("hour", 9)
        assert await session.activate("treating") == "treating(ann, p7)"
        assert await session.activate("onDuty") == "onDuty(ann)"
        assert await session.activate("onCall") == "onCall(ann)"
        with pytest.raises(RoleRefused, match="no rule trusts"):
            await world.client(EVE).retract("treats(ann, p7)")
        gone = await hr.retract("treats(ann, p7)")
        assert [each.split("`")[1] for each in gone] == ["treating(ann, p7)"]
        assert [each.split("`")[1] for each in await hr.set("hour", 21)] == ["onDuty(ann)"]
        assert (await world.told("ann"))[0] == ["user(ann)", "doctor(ann)", "onCall(ann)"]


async def test_what_is_told_for_a_while_ends_unless_it_is_told_again(world):
    async with world.service() as service:
        session = await world.doctor()
        hr = world.client(HR)
        await hr.tell("treats(ann, p7)", seconds=3600)
        await hr.tell("treats(ann, p8)", seconds=3600)
        await hr.tell("treats(ann, p8)", seconds=7200)
        await hr.set("hour", 9, seconds=3600)
        for role in ("treating(ann, p7)", "treating(ann, p8)", "onDuty"):
            await session.activate(role)
        service.keeper.advance(time() + 3601)
        assert service.keeper.activity("ann").roles == ("user(ann)", "doctor(ann)", "treating(ann, p8)")
        service.keeper.advance(time() + 13 * 3600)
        assert service.keeper.activity("ann").roles == ()
        assert len(service.keeper) == 0


async def test_an_appointment_given_in_a_role_is_revoked_with_all_that_rests_on_it(world):
    async with world.service():
        ann = await world.doctor()
        bob = await world.client(BOB).begin("bob")
        await bob.activate("user")
        with pytest.raises(RoleRefused, match="may not give"):
            await bob.appoint("nurse(bob)", "bob")
        kept = await ann.appoint("nurse(bob)", "bob", seconds=3600)
        bound = await ann.appoint("nurse(bob)", "bob", bound=True)
        await bob.activate("nurse", bound)
        with pytest.raises(RoleRefused, match="may not revoke"):
            await bob.revoke(kept)
        with pytest.raises(RoleRefused, match="has not issued"):
            await world.client(BOB).revoke(kept)
        await ann.end()
        assert await bob.roles() == ("user(bob)",)
        await bob.activate("nurse", kept)
        ann = await world.doctor()
        assert [each.split("`")[1] for each in await ann.revoke(kept)] == ["nurse(bob)"]
        with pytest.raises(RoleRefused, match="lacks"):
            await bob.activate("nurse", kept)
        assert [each.split("`")[1] for each in await world.client(HR).revoke(employed("ann"))] == [
            "doctor(ann)"
        ]


async def test_decision_points_hear_whose_roles_have_changed(world):
    heard: list[str] = []
    async with (
        world.service(),
        hearing_changes(
            world.bus,
            service_name("default"),
            SERVICE.public,
            lambda root, ids: heard.extend(ids if root == "subject" else []),
        ),
    ):
        await world.doctor()
        await world.bus.flush()
        assert set(heard) == {"ann"}
        heard.clear()
        await world.client(HR).revoke(employed("ann"))
        await eventually(lambda: heard)


async def test_others_look_at_one_session_and_hear_when_to_look_again(world):
    heard: list[tuple[str, list[str]]] = []
    async with (
        world.service(),
        hearing_changes(world.bus, service_name("default"), SERVICE.public, lambda *said: heard.append(said)),
    ):
        session, other = await world.doctor(), await world.client(ANN).begin("ann")
        await other.activate("user")
        view = await look_at_session(world.bus, SERVICE.public, session.id)
        assert (view.principal, view.key, view.roles) == (
            "ann",
            str(ANN.public),
            ("user(ann)", "doctor(ann)"),
        )
        assert (view.rules, 0 < view.seconds <= 60) == ("", True)
        heard.clear()
        await session.end()
        await world.bus.flush()
        assert ("session", [session.id]) in heard
        for each in (session.id, "never"):
            assert await look_at_session(world.bus, SERVICE.public, each) is None


async def test_policies_that_take_a_rule_or_a_key_away_end_what_rests_on_it(world):
    async with world.service() as service:
        session, bob = await world.doctor(), await world.client(BOB).begin("bob")
        await bob.activate("user")
        service.adopt(policies(RULES.replace('"doctor"', '"surgeon"')), 2)
        assert await session.roles() == ("user(ann)",)
        service.adopt(policies(people=PEOPLE.replace(str(BOB.public), str(HR.public))), 3)
        with pytest.raises(RoleRefused, match="there is no open session"):
            await bob.roles()
