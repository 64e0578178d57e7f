"""A broker's keys on the bus: it joins key groups, follows their changes, and asks again when it has missed one."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import random
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from authz import AuthFabricError, Identity, PublicKey
from authz.errors import UNREADABLE
from bus.errors import BusError, ReplyTimeout
from bus.nats import Connection, Subscription
from bus.runtime import begin_work, end_task
from bus.wire import pack, subjects
from pubsub_core.key_groups.admission import entitle
from pubsub_core.key_groups.appointment_store import Known, Managers
from pubsub_core.key_groups.group_keys import Membership
from pubsub_core.key_groups.keyed_type import KeyedType
from pubsub_core.key_groups.messages import (
    MAX_AGE,
    REQUEST_DOMAIN,
    Answer,
    Introduction,
    Request,
    SignedRequest,
    appointments,
    changes,
    decode_answer,
    encode,
    introductions,
    unpack_told,
)
from pubsub_core.key_groups.plan_history import GRACE
from pubsub_core.keys import (
    KEY_BYTES,
    AdmissionRefused,
    CannotOpen,
    KeyRing,
    ManagerUnable,
    ManagerUntrusted,
    OutOfStep,
    Plan,
    ask,
    derive,
)

SECONDS = 3.0
"""Seconds to wait for a manager's answer."""
AGAIN = 0.25
"""Seconds before a failed request is repeated; doubled each time."""

_log = logging.getLogger("authfabric.keys")


@dataclass(slots=True)
class _Joined:
    """What is kept of a type whose keys were asked for."""

    keyed: KeyedType
    chain: bytes
    manager: PublicKey
    introduction: Introduction
    groups: dict[str, Membership]
    own_key: bytes
    retired: dict[str, Membership] = field(default_factory=dict)
    """Groups of earlier plans, whose keys are kept a little longer, and followed as long as their manager tells."""
    subscription: Subscription | None = None
    asking: asyncio.Task[None] | None = None
    heard: dict[bytes, None] = field(default_factory=dict)
    """The last changes heard, as they came: they come again and again."""


class KeyClient:
    """A broker's memberships: `async with KeyClient(bus, identity, ring).running(): ...`."""

    def __init__(
        self,
        bus: Connection,
        identity: Identity,
        ring: KeyRing,
        managers: Managers | None = None,
        *,
        clock: Callable[[], float] = time.time,
        seconds: float = SECONDS,
    ) -> None:
        """`managers` remembers who was appointed; without it that is known only as long as this one lives."""
        self.ring = ring
        self._bus = bus
        self._identity = identity
        self._clock = clock
        self._seconds = seconds
        self._joined: dict[str, _Joined] = {}
        self._plans: dict[str, Plan] = {}
        self._managers = managers or Managers(None, identity)
        self.on_change: list[Callable[[], None]] = []
        """Called whenever the ring holds other keys."""
        self.on_doubt: list[Callable[[str], None]] = []
        """Called when a type's manager speaks of groups that are not in its plan as we know it, or gives no keys."""
        self.repaired = 0
        """How often a change was missed and made good."""

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep up with the groups joined, for the length of the block."""
        expiring = begin_work(self._expire_always)
        self._bus.on_ready.append(self._ask_all)
        try:
            yield
        finally:
            self._bus.on_ready.remove(self._ask_all)
            await expiring.end()
            for joined in list(self._joined.values()):
                await self._forget(joined)

    async def join(self, keyed: KeyedType, chain: bytes, groups: Iterable[str] | None = None) -> Plan:
        """Become a member of these groups of a type, or of all that the chain entitles to; returns the type's plan.

        Do it again to renew the chain, or to go along with another plan or manager. Raises AdmissionRefused,
        ManagerUntrusted, or NoResponders, ReplyTimeout or ManagerUnable if no manager answers.
        """
        joined = await self._meet(keyed, chain)
        try:
            for group in self._entitled(joined) if groups is None else groups:
                if group not in joined.groups:
                    joined.groups[group] = self._take_up(joined, group)
            await self._ask(joined)
        except AdmissionRefused:
            if not any(map(self.ring.holds, joined.groups)):
                await self._forget(joined)  # there is nothing to keep up with
            raise
        return joined.introduction.plan

    def _take_up(self, joined: _Joined, group: str) -> Membership:
        """Be a member of a group, as before if it is of a plan that has come back."""
        self.ring.retire(group, math.inf)
        own_key = derive(joined.own_key, "member", bytes.fromhex(group))
        return joined.retired.pop(group, None) or Membership(group, own_key, self.ring)

    async def leave(self, type_id: str) -> None:
        """Say that the keys of a type are needed no more, and destroy them."""
        joined = self._joined[type_id]
        try:
            await self._request(joined, joined.groups, leave=True)
        finally:
            await self._forget(joined)

    async def find_plan(self, keyed: KeyedType) -> Plan:
        """The key groups of a type, as its manager says, without asking for keys. Raises as `join` does."""
        _, introduction = await self._introduced(keyed)
        return introduction.plan

    def plan(self, type_id: str) -> Plan | None:
        """The key groups of a type, if its manager has said which there are."""
        return self._plans.get(type_id)

    async def _meet(self, keyed: KeyedType, chain: bytes) -> _Joined:
        """Find out who manages a type's keys and how, and listen to what it tells."""
        manager, introduction = await self._introduced(keyed)
        self._plans[keyed.id] = introduction.plan
        joined = self._joined.get(keyed.id)
        if joined is not None and joined.manager != manager:
            await self._forget(joined)  # the keys of another manager are others
            joined = None
        if joined is None:
            return await self._begin(keyed, chain, manager, introduction)
        for group in joined.groups.keys() - introduction.plan.by_id.keys():
            joined.retired[group] = joined.groups.pop(group)
            self.ring.retire(group, self._clock() + GRACE)  # others go by the old plan a little longer
        joined.keyed, joined.chain, joined.introduction = keyed, chain, introduction
        return joined

    async def _begin(
        self, keyed: KeyedType, chain: bytes, manager: PublicKey, introduction: Introduction
    ) -> _Joined:
        joined = _Joined(keyed, chain, manager, introduction, {}, os.urandom(KEY_BYTES))
        joined.subscription = await self._bus.listen(
            subjects.key_changes(keyed.id),
            lambda _subject, _reply, payload, _headers: self._hear(joined, payload),
        )
        self._joined[keyed.id] = joined
        return joined

    async def _introduced(self, keyed: KeyedType) -> tuple[PublicKey, Introduction]:
        """Ask who manages a type's keys, and which there are."""
        reply = await self._bus.ask(subjects.key_manager(keyed.id), b"", self._seconds)
        return self._trust(keyed, unpack_told(reply).data)

    def _trust(self, keyed: KeyedType, data: bytes) -> tuple[PublicKey, Introduction]:
        """The manager, if it is the type's owner or was appointed by it."""
        try:
            words = msgspec.msgpack.decode(
                msgspec.msgpack.decode(data, type=_Peek).content, type=Introduction
            )
            manager = keyed.owner
            if words.appointment:
                manager = self._appointed(keyed, words.appointment)
            introduction = introductions.open(data, {manager}).value
        except ManagerUntrusted:
            raise
        except (*UNREADABLE, AuthFabricError) as error:
            raise ManagerUntrusted(keyed.id, str(error)) from None
        if introduction.type != keyed.id or introduction.plan != introduction.plan.of(keyed.id):
            raise ManagerUntrusted(keyed.id, "it introduces itself, or its key groups, for another type")
        self._check_age(keyed.id, manager, introduction)
        known = self._managers.of(keyed.id)
        in_force = {**known.in_force, str(manager): introduction.since}
        self._managers.keep(keyed.id, Known(introduction.appointment or known.appointment, in_force))
        return manager, introduction

    def _check_age(self, type_id: str, manager: PublicKey, introduction: Introduction) -> None:
        """By an old plan, what is sealed now may have been in clear."""
        if not abs(self._clock() - introduction.at) <= MAX_AGE:
            raise ManagerUntrusted(
                type_id, f"its introduction is not of now, or clocks differ by {MAX_AGE:g} s"
            )
        if introduction.since < self._managers.of(type_id).in_force.get(str(manager), 0.0):
            raise ManagerUntrusted(type_id, "it goes by key groups that others have replaced")

    def _appointed(self, keyed: KeyedType, appointment: bytes) -> PublicKey:
        """Whom the owner has appointed, if nobody since. Raises ManagerUntrusted, or as opening does."""
        appointed = appointments.open(appointment, {keyed.owner}).value
        if not appointed.holds(keyed.id, self._clock()):
            problem = "its appointment is for another type, has ended, or has a date ahead of now"
            raise ManagerUntrusted(keyed.id, problem)
        last = self._managers.of(keyed.id).appointment
        if last and appointed.since < appointments.open(last, {keyed.owner}).value.since:
            raise ManagerUntrusted(keyed.id, "another was appointed since")
        return PublicKey.parse(appointed.manager)

    def _entitled(self, joined: _Joined) -> list[str]:
        """The groups that our capability is for. Raises AdmissionRefused if there are none."""
        found, refusal = [], AdmissionRefused("the type has no key groups")
        try:
            capability = joined.keyed.verifier().verify(joined.chain, self._clock()).capability
        except AuthFabricError as error:
            raise AdmissionRefused(str(error)) from None
        for group in joined.introduction.plan.groups:
            try:
                entitle(capability, joined.keyed.name, joined.keyed.names_in(group))
                found.append(group.id)
            except AdmissionRefused as error:
                refusal = error
        if not found:
            raise refusal
        return found

    async def _ask(self, joined: _Joined) -> None:
        await self._ask_for(joined, joined.groups)
        retired = {
            each: joined.retired[each] for each in joined.introduction.retired if each in joined.retired
        }
        if retired:
            try:
                await self._ask_for(joined, retired)
            except AdmissionRefused:  # they are managed no more
                for group in retired:
                    joined.retired.pop(group, None)
                    self.ring.drop(group)
        self._changed()

    async def _ask_for(self, joined: _Joined, groups: Mapping[str, Membership]) -> None:
        for welcome in (await self._request(joined, groups)).welcomes:
            membership = groups.get(welcome.group)
            if membership is not None:
                membership.take(welcome)

    async def _request(self, joined: _Joined, groups: Iterable[str], leave: bool = False) -> Answer:
        """Ask the manager, until it answers or the time is over."""
        content = encode(
            Request(str(joined.manager), self._clock(), tuple(groups), joined.chain, joined.own_key, leave)
        )
        signed = SignedRequest(content, self._identity.sign(REQUEST_DOMAIN + content))
        question, exchanged = ask(joined.introduction.exchange, encode(signed))
        subject = subjects.key_requests(joined.keyed.id)
        reply = await self._bus.ask(subject, pack(question), self._seconds)
        try:
            answer = decode_answer(exchanged.open(unpack_told(reply).data))
        except (CannotOpen, *UNREADABLE):
            raise ReplyTimeout(subject, self._seconds) from None
        if answer.later:
            raise ManagerUnable(answer.problem)
        if answer.problem:
            raise AdmissionRefused(answer.problem)
        return answer

    def _hear(self, joined: _Joined, payload: bytes) -> None:
        if payload in joined.heard:
            return
        try:
            change = changes.open(unpack_told(payload).data, {joined.manager}).value
        except AuthFabricError:
            return  # nobody of whom we would hear
        membership = joined.groups.get(change.group) or joined.retired.get(change.group)
        if membership is None:
            introduced = joined.introduction
            if change.group not in introduced.plan.by_id and change.group not in introduced.retired:
                self._doubt(joined.keyed.id)
            return
        if not membership.epoch:
            return  # its welcome is on the way
        try:
            membership.follow(change)
        except OutOfStep:
            self.repaired += 1
            self._ask_again(joined)
            return
        joined.heard[payload] = None
        while len(joined.heard) > 2 * len(joined.groups):
            joined.heard.pop(next(iter(joined.heard)))
        self._changed()

    def _ask_all(self) -> None:
        """The connection was away, and we may have missed anything."""
        for joined in self._joined.values():
            self._ask_again(joined)

    def _ask_again(self, joined: _Joined) -> None:
        if joined.asking is None or joined.asking.done():
            joined.asking = asyncio.create_task(self._ask_until_answered(joined))

    async def _ask_until_answered(self, joined: _Joined) -> None:
        wait = AGAIN
        while True:
            try:
                await self._ask(joined)
                return
            except AdmissionRefused as error:
                await self._refused(joined, error)
                return
            except BusError as error:
                _log.info("the keys of `%s` are asked for again: %s", joined.keyed.id, error)
            await asyncio.sleep(random.uniform(wait / 2, wait))
            wait = min(2 * wait, 10.0)

    def _doubt(self, type_id: str) -> None:
        for tell in self.on_doubt:
            tell(type_id)

    async def _refused(self, joined: _Joined, error: AdmissionRefused) -> None:
        """Destroy the keys of a type, unless it is only that its groups are other ones now."""
        with contextlib.suppress(BusError, ManagerUntrusted):
            manager, introduction = await self._introduced(joined.keyed)
            if manager == joined.manager and introduction.plan != joined.introduction.plan:
                self._doubt(joined.keyed.id)
                return
        _log.warning("no keys of `%s` any more: %s", joined.keyed.id, error.problem)
        await self._forget(joined)
        self._changed()
        self._doubt(joined.keyed.id)

    async def _forget(self, joined: _Joined) -> None:
        self._joined.pop(joined.keyed.id, None)
        if joined.asking is not None and joined.asking is not asyncio.current_task():
            await end_task(joined.asking)
        if joined.subscription is not None:
            with contextlib.suppress(BusError):
                await joined.subscription.cancel()
        for group in joined.groups.keys() | joined.retired.keys():
            self.ring.drop(group)

    async def _expire_always(self) -> None:
        while True:
            delays = [joined.introduction.rules.delay for joined in self._joined.values()]
            if delays and self.ring.expire(self._clock(), max(delays)):
                self._changed()
            await asyncio.sleep(1.0)

    def _changed(self) -> None:
        for action in self.on_change:
            action()


class _Peek(msgspec.Struct, frozen=True, array_like=True):
    """The content of something signed, before it is known to be."""

    content: bytes
