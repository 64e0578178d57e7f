"""The role service: keeps sessions for principals on the bus, and tells decision points who is in which role.

Several processes with one key serve a domain together: each has every session in memory, and what they share stands in
a store. What is told to decision points is good until the lease ends, which runs from when this process last asked the
store. So whatever was stored, by whichever process, counts everywhere within the lease.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic, time
from types import MappingProxyType
from typing import Self

from msgspec.structs import replace

from authz import AuthFabricError, Identity
from authz.crypto import UntrustedSigner
from authz.errors import InvalidSignature
from bus.errors import BusError
from bus.feeds import ReleaseFollower
from bus.nats import Connection
from bus.runtime import in_background
from bus.services import (
    SESSION,
    SUBJECT,
    EntityAttributes,
    announce_changes,
    responding,
    serve_attributes,
    service_name,
)
from bus.stores import RecordChanged, RecordStore
from bus.wire import DEFAULT_DOMAIN, Command, Outcome, command_seal, pack, subjects, unpack_said
from pdp.bundle import PolicySet
from pdp.oasis import CommandRefused, RolesUnavailable, UnknownSession
from pdp.sessions.commands import CommandExecutor
from pdp.sessions.record import (
    CHALLENGE_SECONDS,
    SKEW_SECONDS,
    SWEEP_SECONDS,
    Challenge,
    ContextRecord,
    FactRecord,
    Record,
    RevokedRecord,
    Seals,
)
from pdp.sessions.session_state import Activity, SessionState

LOOK_SECONDS = 1.0
"""Maximum seconds between two polls of the store; fewer under a short lease."""
SWEEP_EVERY = 60.0
REVOKED_SECONDS = 86_400.0
"""How long a revocation is kept once its appointment was found to have expired, by the monotonic clock: the wall clock
may be ahead for a while."""

_log = logging.getLogger("authfabric.roles")


@dataclass(frozen=True, slots=True)
class RoleServing:
    """The configuration of a role service."""

    identity: Identity
    """The key that all role services of the domain share."""
    domain: str = DEFAULT_DOMAIN
    lease: float = 5.0
    """Seconds within which whatever ends counts everywhere."""
    longest: float = 12 * 3600.0
    """Seconds that a session may last."""


class RoleService:
    """`async with RoleService(bus, serving) as service`, and `service.adopt(policies, epoch)` whenever they change."""

    def __init__(
        self, bus: Connection, serving: RoleServing, releases: ReleaseFollower | None = None
    ) -> None:
        """With `releases`, it serves only under their lease."""
        self._bus = bus
        self._releases = releases
        self._serving = serving
        self._name = service_name(serving.domain)
        self._below = subjects.token(serving.domain)
        self._store = RecordStore(bus, subjects.ROLES)
        self._seals = Seals(serving.domain, serving.identity)
        self._commands = command_seal(serving.domain)
        self.keeper = SessionState(time())
        self._deeds = CommandExecutor(
            self.keeper, serving.identity, serving.longest, lambda: secrets.token_hex(8)
        )
        self._numbers: dict[str, int] = {}
        """Where each record stands in the store, as it was last seen: what is written must take the place of that."""
        self._newest: dict[str, int] = {}
        """The number of each record that counts: what has no higher one is old, whoever has put it back."""
        self._gone = float("-inf")
        """When the last was said of what was swept away: what is not known and was said before that is old, too."""
        self._read = 0
        self._latest = 0.0
        """The time of the latest challenge that is known to have been answered."""
        self._heard = float("-inf")
        self._adopted = False
        self._swept = monotonic()
        self._over_since: dict[str, float] = {}
        """When each record was found to be over, by the monotonic clock."""
        self._turn = asyncio.Lock()
        self._news = asyncio.Event()
        self._stack = contextlib.AsyncExitStack()
        self.problem = ""
        """What is in the way of serving, if anything is."""

    async def __aenter__(self) -> Self:
        enter = self._stack.enter_async_context
        listening = await self._store.listen(self._news.set, self._below)
        self._stack.push_async_callback(listening.cancel)
        await self._look()
        in_background(self._stack, self._follow)
        busy = pack(Outcome(problem="too many questions at once"))
        await enter(
            responding(
                self._bus,
                [subjects.roles(self._serving.domain)],
                self._answer,
                busy=busy,
                queue=subjects.QUEUE,
                waiting=1024,
            )
        )
        identity, domain = self._serving.identity, self._serving.domain
        await enter(serve_attributes(self._bus, self._name, identity, self._look_up, domain))
        await self._bus.flush()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def adopt(self, policies: PolicySet, epoch: int) -> None:
        """Put these policies in force."""
        self.keeper.advance(time())
        self.keeper.adopt(policies.roles, policies.entities, epoch)
        self._adopted = True
        self._announce()
        self._news.set()

    @property
    def able(self) -> bool:
        """Whether it can answer: it has policies, and the store was heard within the lease."""
        return not self._trouble()

    @property
    def _left(self) -> float:
        """Seconds that what is known of the store still counts."""
        return self._heard + self._serving.lease - monotonic()

    def _trouble(self) -> str:
        if not self._adopted:
            return "there are no policies yet"
        if self._releases is not None and self._releases.stale_for > 0:
            return f"the lease on the policies has ended: {self._releases.problem}"
        if self._left <= 0:
            return self.problem or f"the store was not heard for {self._serving.lease:g} s"
        return ""

    # What decision points ask

    async def _look_up(
        self, root: str, ids: Sequence[str], names: Sequence[str]
    ) -> Mapping[str, EntityAttributes]:
        if trouble := self._trouble():
            raise RolesUnavailable(trouble)
        left = self._left
        self.keeper.advance(time())
        self._announce()
        if root == SESSION:
            return {each: self._session(each, left) for each in ids if self.keeper.knows(each)}
        return {each: _told(self.keeper.activity(each), left) for each in ids} if root == SUBJECT else {}

    def _session(self, session: str, left: float) -> EntityAttributes:
        try:
            record = self.keeper.session(session)
        except UnknownSession:
            return EntityAttributes({}, left)
        said = {"principal": record.principal, "key": record.key, "rules": record.rules}
        return _told(self.keeper.activity_in(session), left, said)

    # What principals say

    async def _answer(self, payload: bytes) -> bytes:
        try:
            said = unpack_said(payload)
            return pack(await self._do(said.data) if said.data else self._challenge())
        except CommandRefused as error:
            return pack(Outcome(problem=error.problem, again=error.again))
        except AuthFabricError as error:
            return pack(Outcome(problem=str(error)))

    def _challenge(self) -> Outcome:
        # Later than all answered before, also where clocks differ, or it could not be answered; but a clock that was
        # far ahead is not followed.
        now = time()
        later = self._latest + 1e-6 if self._latest <= now + SKEW_SECONDS else now
        challenge = Challenge(secrets.token_hex(16), max(now, later))
        return Outcome(challenge=self._seals.sign_challenge(challenge))

    async def _do(self, data: bytes) -> Outcome:
        command, signer = self._commands.read(data)
        challenge = self._open(command)
        async with self._turn:
            self.keeper.advance(time())
            try:
                outcome = self._deeds.do(command.deed, signer, challenge)
            finally:
                lost = await self._save()
                self._announce()
        if any(_said(each) == challenge.at for each in lost):
            raise CommandRefused("something else was said at the same time", again=True)
        return outcome

    def _open(self, command: Command) -> Challenge:
        try:
            challenge = self._seals.open_challenge(command.challenge)
        except (InvalidSignature, UntrustedSigner):
            raise CommandRefused("this answers no challenge of this domain's role service") from None
        if not -SKEW_SECONDS <= time() - challenge.at <= CHALLENGE_SECONDS:
            raise CommandRefused("the challenge is too old: ask for another")
        return challenge

    # What role services share

    async def _follow(self) -> None:
        seconds = min(LOOK_SECONDS, self._serving.lease / 4)
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._news.wait()
            self._news.clear()
            await self._look()

    async def _look(self) -> None:
        """See what others have stored, store what is not yet, and tell decision points what has changed."""
        async with self._turn:
            asked = monotonic()
            try:
                await self._read_new()
                self._heard = asked
                self.keeper.advance(time())
                await self._save()
                await self._sweep()
                self._say("")
            except BusError as error:
                self._say(str(error))
            self._announce()

    async def _read_new(self) -> None:
        found: list[Record] = []
        undone: list[Record] = []
        for each in await self._store.since(self._read, self._below):
            self._read = each.number
            name = each.name.removeprefix(f"{self._below}.")
            if each.number <= self._numbers.get(name, 0):
                continue  # written by this process, which may know better by now
            known = self.keeper.known(name)
            if not each.data:
                self._numbers.pop(name, None)
                if known is not None and not known.over(self.keeper.now):  # else it was swept away elsewhere
                    undone.append(known)
                continue
            self._numbers[name] = each.number
            record = self._verify(name, each.data)
            if record is None or record.number <= self._newest.get(name, -1):
                undone += [] if known is None else [known]
                continue
            self._newest[name] = record.number
            if known is None and (ended := self._ended(record)) is not None:
                undone.append(ended)
                record = ended
            self._note(_said(record))
            found.append(record)
        self.keeper.take(found)
        for record in undone:
            _log.warning(
                "`%s` in the store of roles was put back, or taken out: it is written again", record.name
            )
            self.keeper.save(record)

    def _ended(self, record: Record) -> Record | None:
        """What is to be said of something that was swept away since and is there again; None if it is none such."""
        if not isinstance(record, (FactRecord, ContextRecord)) or record.over(self.keeper.now):
            return None
        if record.said > min(self._gone, time() - SWEEP_SECONDS):
            return None
        if isinstance(record, FactRecord):
            return replace(record, holds=False, until=None)
        return replace(record, value=None, until=None)

    def _verify(self, name: str, data: bytes) -> Record | None:
        try:
            record = self._seals.open_record(data)
        except (InvalidSignature, UntrustedSigner) as error:
            _log.warning("`%s` in the store of roles is not used: %s", name, error)
            return None
        if record.name != name:
            _log.warning("`%s` in the store of roles is not used: it belongs elsewhere", name)
            return None
        return record

    async def _save(self) -> list[Record]:
        """Store what is not yet; returns what was not, since somebody else has changed it meanwhile."""
        lost: list[Record] = []
        for name, record in list(self.keeper.unsaved.items()):
            self._note(_said(record))
            stored = replace(record, number=self._newest.get(name, 0) + 1)
            data, number = self._seals.sign_record(stored), self._numbers.get(name, 0)
            try:
                self._numbers[name] = await self._store.write(f"{self._below}.{name}", data, number)
                self._newest[name] = stored.number
            except RecordChanged:
                self._numbers.pop(name, None)
                lost.append(record)
            if self.keeper.unsaved.get(name) is record:
                del self.keeper.unsaved[name]
        if lost:
            await self._read_new()
        for record in lost:
            if record.name not in self._numbers:  # it was swept away elsewhere
                self.keeper.save(record)
        return lost

    async def _sweep(self) -> None:
        if monotonic() - self._swept > SWEEP_EVERY:
            self._swept = now = monotonic()
            over = {each.name: each for each in self.keeper.over(time())}
            self._over_since = {name: self._over_since.get(name, now) for name in over}
            for name, record in over.items():
                if isinstance(record, RevokedRecord) and now - self._over_since[name] < REVOKED_SECONDS:
                    continue
                self.keeper.drop(record)
                self._gone = max(self._gone, _said(record))
                self._numbers.pop(name, None)
                self._newest.pop(name, None)
                await self._store.erase(f"{self._below}.{name}")

    def _note(self, said: float) -> None:
        """Take note of when something was said, unless by a clock that was far ahead."""
        if said <= time() + SKEW_SECONDS:
            self._latest = max(self._latest, said)

    def _announce(self) -> None:
        if self.keeper.changed:
            changed, self.keeper.changed = self.keeper.changed, {}
            for root, ids in ((SUBJECT, {*changed.values()}), (SESSION, {*changed})):
                serving = self._serving
                announce_changes(self._bus, self._name, serving.identity, root, sorted(ids), serving.domain)

    def _say(self, problem: str) -> None:
        if problem and problem != self.problem:
            _log.warning("role sessions of `%s`: %s", self._serving.domain, problem)
        self.problem = problem


def _told(
    activity: Activity, left: float, more: Mapping[str, object] = MappingProxyType({})
) -> EntityAttributes:
    """What is active, good until the lease ends or the first role does."""
    ends = left if activity.until is None else min(left, activity.until - time())
    return EntityAttributes({"roles": list(activity.roles), **more}, max(ends, 0.0))


def _said(record: Record) -> float:
    return 0.0 if isinstance(record, RevokedRecord) else record.said
