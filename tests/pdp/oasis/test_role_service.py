"""Role services on a real bus: only the key of a session can use it, and whatever ends counts everywhere."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from time import time

import msgspec
import pytest

import pdp.oasis.role_service as role_service
from authz import Identity
from bus import Connection, NatsServer
from bus.attributes import AttributesFailed, ask_attributes, hearing_changes
from bus.envelope import pack
from bus.record_store import RecordStore
from bus.role_messages import Activate, Begin, Command, End, Outcome, Said, command_seal, unpack_outcome
from bus.roles import RoleClient, RoleRefused, RoleSession, look_at_session, service_name
from bus.subjects import ROLES, roles
from pdp.bundle import Bundle, File
from pdp.oasis import Appointment
from pdp.oasis.errors import DeedRefused
from pdp.oasis.keeper import Keeper
from pdp.oasis.record import CHALLENGE_SECONDS, Challenge, Seals
from pdp.oasis.role_service import RoleService, RoleServing
from pdp.policy_set import PolicySet
from tests.waiting import eventually

SERVICE, ANN, BOB, EVE, HR = (Identity.generate() for _ in range(5))
RULES = f"""
trust {HR.public} for employed, treats, hour
trust {SERVICE.public} for nurse
[principal(u)] |- user(u)
user(u)*, appointment employed(u, "doctor")* |- doctor(u)
doctor(d)*, [treats(d, p)]* |- treating(d, p)
doctor(d)*, [context.hour < 20]* |- onDuty(d)
doctor(d), [context.hour < 20] |- onCall(d)
user(n)*, appointment nurse(n)* |- nurse(n)
doctor(d) |- appoint nurse(n)
treating(d, p) |- privilege(read, "/patients/{{p}}")
"""
PEOPLE = f"subjects: {{ann: {{key: {ANN.public}}}, bob: {{key: [{BOB.public}, {EVE.public}]}}, cyd: {{}}}}"


def policies(rules: str = RULES, people: str = PEOPLE) -> PolicySet:
    return PolicySet.read(Bundle.of([File("r.oasis", rules), File("people.entities.yaml", people)]))


def employed(holder: str, serial: str = "e1", seconds: float | None = None, by: Identity = HR) -> bytes:
    expires = None if seconds is None else time() + seconds
    content = ("", serial, "employed", (holder, "doctor"), holder, 0.0, expires, "hr", "")
    return msgspec.msgpack.encode(Appointment(*content).signed(by))


class World:
    """A server, and services and principals that share it."""

    def __init__(self, server: NatsServer, bus: Connection) -> None:
        self.server = server
        self.bus = bus

    @contextlib.asynccontextmanager
    async def service(
        self, lease: float = 60.0, rules: PolicySet | None = None
    ) -> AsyncIterator[RoleService]:
        async with (
            Connection(self.server.url) as bus,
            RoleService(bus, RoleServing(SERVICE, lease=lease)) as service,
        ):
            service.adopt(rules or policies(), 1)
            yield service

    def client(self, identity: Identity) -> RoleClient:
        return RoleClient(self.bus, identity, seconds=20.0)

    async def doctor(self) -> RoleSession:
        """Ann's session, in which she is a doctor."""
        session = await self.client(ANN).begin("ann")
        await session.activate("user")
        assert await session.activate("doctor", employed("ann")) == "doctor(ann)"
        return session

    async def told(self, principal: str) -> tuple[list[str], float]:
        """What decision points are told, and for how long that is good."""
        names = ["roles"]
        found = await ask_attributes(
            self.bus, service_name("default"), SERVICE.public, "subject", [principal], names, 20.0
        )
        known = found[principal]
        return known.attributes["roles"], known.seconds

    async def say(self, data: bytes) -> Outcome:
        return unpack_outcome(await self.bus.ask(roles("default"), pack(Said(data)), 20.0))


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with NatsServer(jetstream=True) as server, Connection(server.url) as bus:
        yield World(server, bus)


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
        with pytest.raises(DeedRefused, match="at the same time"):
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
        "signature": employed("ann")[:-1] + b"\0",
        "junk": secrets.token_bytes(50),
    }
    async with world.service():
        session = await world.client(ANN).begin("ann")
        await session.activate("user")
        with pytest.raises(RoleRefused):
            await session.activate("doctor", certificates[forged])
        assert await session.roles() == ("user(ann)",)


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


async def test_policies_that_take_a_rule_or_a_key_away_end_what_rests_on_it(world):
    async with world.service() as service:
        session, bob = await world.doctor(), await world.client(BOB).begin("bob")
        await bob.activate("user")
        service.adopt(policies(RULES.replace('"doctor"', '"surgeon"')), 2)
        assert await session.roles() == ("user(ann)",)
        service.adopt(policies(people=PEOPLE.replace(str(BOB.public), str(HR.public))), 3)
        with pytest.raises(RoleRefused, match="there is no open session"):
            await bob.roles()


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
        beside = Keeper(time())
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
        monkeypatch.setattr(role_service, "time", lambda: time() + 13 * 3600)
        store = RecordStore(world.bus, ROLES)
        async with asyncio.timeout(60):
            while len(left := await store.since(0)) > 1:  # noqa: ASYNC110 - others erase them
                await asyncio.sleep(0.01)
        assert left[0].name.startswith("default.fact.")
