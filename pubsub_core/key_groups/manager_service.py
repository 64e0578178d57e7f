"""A key group manager on the bus: one replica of any number, which share nothing but the sealed state of the groups.

Each change is stored first, by compare-and-set, and told afterwards; and the last one is told again with every pulse,
by every replica. So a replica that dies between the two leaves nobody behind, and two that act at once agree.

What is sealed may still be old. Invariant: no replica goes on from less than it has seen; what was put back is written
over, and whatever another has stored is looked through for members whose capability was taken back.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import math
import time
from collections.abc import AsyncIterator, Callable

import msgspec

from authz.spki import Notice
from bus.errors import BadMessage, BusError, NotConnected
from bus.feeds import RevocationFeed
from bus.nats import Connection
from bus.runtime import end_task
from bus.services import responding
from bus.stores import State, StateMoved, StateStore
from bus.wire import pack, subjects
from pubsub_core.key_groups.key_distribution import Admission, KeyDistribution
from pubsub_core.key_groups.key_group import Change, GroupRecord, KeyGroup, Welcome
from pubsub_core.key_groups.messages import Answer, Told, changes, encode, unpack_question
from pubsub_core.key_groups.oft import Rekey
from pubsub_core.key_groups.plan_history import Ways
from pubsub_core.key_groups.state_marks import StateMarks
from pubsub_core.key_groups.status import GroupStatus, KeyStatus
from pubsub_core.keys import AdmissionRefused, CannotOpen, MarksUnknown, Secrets, StateUnreadable

PULSE = 1.0
"""Seconds between two ticks of the manager, and between two repetitions of the last change."""

PATIENCE = 5.0
"""Seconds after which it is logged that the store of revocations still does not answer."""

_log = logging.getLogger("authfabric.keys")
_decode = msgspec.msgpack.Decoder(GroupRecord).decode
_decode_ways = msgspec.msgpack.Decoder(Ways).decode
Action = Callable[[KeyGroup], bool]
"""Does something with a group, and says whether that has changed it."""


class KeyManager:
    """One replica: `async with KeyManager(bus, office).serving(): ...`."""

    def __init__(
        self,
        bus: Connection,
        office: KeyDistribution,
        marks: StateMarks | None = None,
        *,
        back: bool = False,
        pulse: float = PULSE,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """With `back`, it may return to a plan that another has replaced.

        `marks` remembers how far the groups had come; without it that is known only as long as this one lives.
        """
        self._bus = bus
        self._back = back
        self._office = office
        self._pulse = pulse
        self._clock = clock
        self._secrets = Secrets(office.identity)
        self._store = StateStore(bus, subjects.KEYS)
        self._marks = marks or StateMarks(None, office.identity)
        self._newest: dict[str, GroupRecord] = {}
        """Of each group, the newest that was seen here."""
        self._seen: dict[str, int] = {}
        """Of each group, the revision that was looked through last."""
        self._feed: RevocationFeed | None = None
        self._review = False
        self._signed: dict[str, tuple[Change, bytes]] = {}
        self._introduction = -math.inf, b""
        self.refused = 0
        """How many requests were refused since the start."""
        self.answered = 0
        """How many were granted."""
        self.troubled = False
        """Whether the groups could not be kept up when that was last tried."""

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Answer requests and keep the schedule, for the length of the block.

        Raises PlanReplaced, StateUnreadable, or MarksUnknown.
        """
        type_id = self._office.keyed.id
        await self._save_plan()

        async def introduce(_: bytes) -> bytes:
            return self._introduce()

        busy = pack(Told(b""))
        async with contextlib.AsyncExitStack() as stack:
            self._feed = feed = await stack.enter_async_context(RevocationFeed(self._bus, self.accept))
            while not await feed.first_look(PATIENCE):  # until then, nobody is answered
                continue
            for subject, answer in (
                (subjects.key_manager(type_id), introduce),
                (subjects.key_requests(type_id), self._answer),
            ):
                await stack.enter_async_context(
                    responding(self._bus, [subject], answer, busy=busy, queue="keys", at_once=1)
                )
            ticking = asyncio.create_task(self._tick_always())
            stack.push_async_callback(end_task, ticking)
            yield

    def accept(self, notice: Notice) -> None:
        """Heed a revocation: whoever was admitted by what it takes back is evicted. Raises InvalidSignature."""
        self._office.verifier.accept(notice, self._clock())
        self._review = True

    async def tick(self) -> None:
        """Do what is due in every group, and tell the last changes again."""
        await self._follow_plan()
        review, self._review = self._review, False
        # Whoever still goes by the plan before must be rid of those who are evicted as well.
        for id_ in self._office.ways.groups(self._clock()):
            await self._change(id_, lambda group: self._keep_up(group, review))

    async def status(self) -> KeyStatus:
        """How the groups stand that are managed here, or were last."""
        groups = []
        plan = await self._read("plan")
        ways = _decode_ways(plan.data) if plan.data else self._office.ways
        for each in ways.plan.groups:
            group = KeyGroup((await self._load(each.id))[1], ways.rules)
            groups.append(GroupStatus.of(group, self._office.keyed.names_in(each)))
        return KeyStatus(self._office.keyed.name, str(self._office.identity.public), tuple(groups))

    async def _follow_plan(self) -> None:
        """Go by the plan of the replica that started last, or brokers would be told now one and now the other."""
        found = await self._read("plan")
        if found.data and (ways := _decode_ways(found.data)).since >= self._office.ways.since:
            self._go_by(ways)
            return
        with contextlib.suppress(StateMoved):  # it is looked at again with the next pulse
            await self._write("plan", encode(self._office.ways), found)
            _log.warning("the plan of key groups was put back to an older one, or taken out: it is restored")

    def _go_by(self, ways: Ways) -> None:
        self._marks.keep(self._name("plan"), ways.since)
        if ways != self._office.ways:
            self._office.ways = ways
            self._introduction = -math.inf, b""

    def _introduce(self) -> bytes:
        """Who we are, signed lately: what is repeated later is not believed."""
        now, (at, introduction) = self._clock(), self._introduction
        if not at <= now < at + PULSE:
            introduction = pack(Told(self._office.introduce(self._secrets.public, now)))
            self._introduction = now, introduction
        return introduction

    def _keep_up(self, group: KeyGroup, review: bool) -> bool:
        now = self._clock()
        evicted = review and self._office.review(group, now)
        return group.tick(now) or evicted

    async def _tick_always(self) -> None:
        while True:
            try:
                await self.tick()
                self.troubled = False
            except BusError as error:
                _log.warning("key groups cannot be kept up now: %s", error)
                self._review = self.troubled = True
            except Exception:
                _log.exception("key groups cannot be kept up")
                self.troubled = True
            await asyncio.sleep(self._pulse)

    async def _answer(self, payload: bytes) -> bytes:
        if self._feed is None or not self._feed.read.is_set():
            return pack(Told(b""))  # they ask again
        try:
            asked, exchanged = self._secrets.hear(unpack_question(payload))
        except (BusError, CannotOpen):
            self.refused += 1
            return pack(Told(b""))
        try:
            admission = self._office.judge(asked, self._clock())
            answer = Answer(tuple([await self._admit(id_, admission) for id_ in admission.members]))
            self.answered += 1
        except AdmissionRefused as error:
            self.refused += 1
            answer = Answer(problem=error.problem)
        except BusError as error:
            _log.warning("keys cannot be given now: %s", error)
            answer = Answer(problem=str(error), later=True)
        return pack(Told(exchanged.close(encode(answer))))

    async def _admit(self, id_: str, admission: Admission) -> Welcome:
        group = await self._change(id_, lambda group: self._office.admit(group, admission, self._clock()))
        if admission.request.leave:
            return Welcome(id_, ())
        return group.welcome(admission.name)

    async def _change(self, id_: str, action: Action) -> KeyGroup:
        """Read a group, do something with it, store it and tell; once more if another replica was faster.

        Whoever else writes under its name must not keep it from being changed: then only replicas are looked for.
        """
        before, alone = -1, False
        rival: GroupRecord | None = None
        while True:
            found, record = await self._load(id_)
            before, alone = found.at, alone or found.at == before
            group, restored = self._resume(rival or record)
            evicted = self._seen.get(id_) != found.revision and self._office.review(group, self._clock())
            revision = found.revision
            if action(group) or evicted or restored or rival is not None:
                try:
                    revision, record = await self._save(group, found, record.number, alone)
                except StateMoved:
                    continue
                if alone and (rival := await self._overtaken(id_, found.at, revision)) is not None:
                    continue
            if restored:
                _log.warning(
                    "the key group `%s` was put back to an older state, or taken out: it is restored", id_
                )
            self._note(record, revision)
            self._tell(group)
            return group

    async def _load(self, id_: str) -> tuple[State, GroupRecord]:
        """A group as it is stored."""
        found = await self._read(id_)
        return found, _decode(found.data) if found.data else GroupRecord(id_)

    async def _overtaken(self, id_: str, since: int, until: int) -> GroupRecord | None:
        """What another replica has stored between what was read here and what was written; None if none has."""
        async for state in self._store.read(self._name(id_)):
            if since < state.at < until and (data := self._open(id_, state)):
                return _decode(data)
        return None

    def _resume(self, record: GroupRecord) -> tuple[KeyGroup, bool]:
        """The group to go on from; the second says whether that is another than the store has."""
        newest, mark = self._newest.get(record.id), int(self._marks.of(self._name(record.id)))
        if newest is not None and record.older(newest):
            return KeyGroup(newest, self._office.rules), True
        group = KeyGroup(record, self._office.rules)
        if newest is not None or record.tree.version >= mark:
            return group, False
        group.begin_anew(mark, self._clock())
        return group, True

    def _note(self, record: GroupRecord, revision: int) -> None:
        """Remember how far a group has come."""
        newest = self._newest.get(record.id)
        if newest is not None and record.older(newest):  # it was read before that was stored
            return
        self._newest[record.id], self._seen[record.id] = record, revision
        try:
            self._marks.keep(self._name(record.id), record.tree.version)
        except MarksUnknown as error:
            _log.warning("%s", error)

    async def _save(self, group: KeyGroup, found: State, number: int, alone: bool) -> tuple[int, GroupRecord]:
        newest = self._newest.get(group.id)
        number = max(number, newest.number if newest is not None else 0) + 1
        record = msgspec.structs.replace(group.record(), number=number)
        return await self._write(group.id, encode(record), found, alone), record

    async def _save_plan(self) -> None:
        """Keep for whoever asks which groups there are, and by which rules their keys come and go."""
        mark = self._marks.of(self._name("plan"))
        ways = msgspec.structs.replace(
            self._office.ways, since=max(self._clock(), math.nextafter(mark, math.inf))
        )
        last, alone = -1, False
        while True:
            found = await self._read("plan")
            last, alone = found.at, alone or found.at == last
            if found.data and (before := _decode_ways(found.data)).since >= mark:
                ways = ways.follow(before, self._office.keyed.name, self._back)
                if ways == before:
                    break
            try:
                await self._write("plan", encode(ways), found, alone)
                break
            except StateMoved:
                continue
        self._go_by(ways)

    async def _write(self, id_: str, content: bytes, found: State, alone: bool = False) -> int:
        name = self._name(id_)
        sealed = self._secrets.seal_state(_at(self._store.place, name), content)
        return await self._store.write(name, sealed, found.revision, alone)

    async def _read(self, id_: str) -> State:
        """The newest that a replica has stored, opened; nothing if none has.

        What others have put at places of their own is none of ours: it was not sealed for there.
        """
        revision = 0
        async for state in self._store.read(self._name(id_)):
            revision = state.revision
            if data := self._open(id_, state):
                return dataclasses.replace(state, data=data)
        return State(revision, b"")

    def _open(self, id_: str, state: State) -> bytes:
        """What a replica has stored; nothing if it was somebody else."""
        name = self._name(id_)
        if state.data is None:
            return b""
        try:
            return self._secrets.open_state(_at(state.place, name), state.data)
        except CannotOpen:
            if state.place == self._store.place:
                raise StateUnreadable(name) from None
            return b""

    def _tell(self, group: KeyGroup) -> None:
        """Tell all members of the last change."""
        change = group.change
        if change is None:
            return
        known, data = self._signed.get(group.id, (None, b""))
        if known != change:
            data = self._sign(change)
            self._signed[group.id] = change, data
        with contextlib.suppress(NotConnected):  # it is told again with the next pulse
            self._bus.send(subjects.key_changes(self._office.keyed.id), data)

    def _sign(self, change: Change) -> bytes:
        try:
            return pack(Told(changes.sign(change, self._office.identity)))
        except BadMessage:
            # Too many have come and gone at once for one message: have all of them ask.
            bare = Change(change.group, change.start, Rekey(change.rekey.version))
            return pack(Told(changes.sign(bare, self._office.identity)))

    def _name(self, id_: str) -> str:
        """Another manager of the same type has a state of its own, since neither can read the other's."""
        return f"{self._office.keyed.id}.{self._office.identity.public.raw.hex()[:16]}.{id_}"


def _at(place: str, name: str) -> str:
    """The name of a state, for those who open it: what was sealed for one place is of no use at another."""
    return f"{place}.{name}" if place else name
