"""Role sessions from the side of whoever has a key: begin one, activate roles in it, appoint, revoke, tell facts."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from authz import Identity, PublicKey
from authz.predicate import Scalar
from bus.errors import BusError
from bus.nats import Connection
from bus.services.attribute_client import ask_attributes
from bus.wire import (
    DEFAULT_DOMAIN,
    Activate,
    Appoint,
    Begin,
    Command,
    Deactivate,
    Deed,
    End,
    Look,
    Outcome,
    Revoke,
    Said,
    Set,
    Tell,
    command_seal,
    pack,
    subjects,
    unpack_outcome,
)

SUBJECT, SESSION = "subject", "session"
"""What a role service can be asked about: all the roles of a principal, or one session."""
ATTEMPTS = 5
"""How often a command is tried when it conflicts with others."""


class RoleRefused(BusError):
    """Something that the role service did not do: `problem` says why."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class SessionView(msgspec.Struct, frozen=True):
    """A session as its role service describes it to whoever relies on it."""

    principal: str
    key: str
    """The public key that proved to be the principal's."""
    rules: str
    """The domain whose role rules count in it."""
    roles: tuple[str, ...]
    seconds: float
    """How long this is good for."""


def service_name(domain: str) -> str:
    """The name under which a domain's role service is asked, as an attribute service, who is in which role."""
    return f"roles.{domain}"


async def look_at_session(
    bus: Connection, service: PublicKey, session: str, domain: str = DEFAULT_DOMAIN, seconds: float = 5.0
) -> SessionView | None:
    """A session, in the words of the role service with this key; None if it is not open.

    `bus.services.hearing_changes(bus, service_name(domain), service, ..., domain)` says when to look again. Raises
    AttributesFailed, NoResponders or ReplyTimeout.
    """
    names = ["principal", "key", "rules", "roles"]
    found = await ask_attributes(
        bus, service_name(domain), service, SESSION, [session], names, seconds, domain
    )
    known = found.get(session)
    if known is None or not known.attributes:
        return None
    return msgspec.convert({**known.attributes, "seconds": known.seconds or 0.0}, SessionView)


class RoleClient:
    """One key's line to a domain's role service. Everything raises RoleRefused, NoResponders or ReplyTimeout."""

    def __init__(
        self, bus: Connection, identity: Identity, domain: str = DEFAULT_DOMAIN, seconds: float = 5.0
    ) -> None:
        """`seconds` is how long each answer is waited for."""
        self._bus = bus
        self._identity = identity
        self._subject = subjects.roles(domain)
        self._seal = command_seal(domain)
        self._seconds = seconds

    async def begin(self, principal: str = "", rules: str = "", seconds: float | None = None) -> RoleSession:
        """Begin a session under a name that the policies give to this key, or under the key itself."""
        return self.session((await self.do(Begin(principal, rules, seconds))).session)

    def session(self, id: str) -> RoleSession:
        """A session of this key that has begun before."""
        return RoleSession(self, id)

    async def revoke(self, appointment: bytes) -> tuple[str, ...]:
        """Revoke an appointment that this key has issued; returns what ended by it."""
        return (await self.do(Revoke(appointment))).ended

    async def tell(self, fact: str, seconds: float | None = None) -> None:
        """Assert a fact for `seconds`, unless it is told again. The policies must trust this key for it."""
        await self.do(Tell(fact, True, seconds))

    async def retract(self, fact: str) -> tuple[str, ...]:
        """Say that a fact is true no longer; returns what ended by it."""
        return (await self.do(Tell(fact, False))).ended

    async def set(self, name: str, value: Scalar | None, seconds: float | None = None) -> tuple[str, ...]:
        """Say which value an attribute of the context has now; returns what ended by it."""
        return (await self.do(Set(name, value, seconds))).ended

    async def do(self, deed: Deed) -> Outcome:
        """Have something done."""
        for _ in range(ATTEMPTS):
            challenge = (await self._say(b"")).challenge
            outcome = await self._say(self._seal.sign(Command(challenge, deed), self._identity))
            if not outcome.again:
                break
        if outcome.problem:
            raise RoleRefused(outcome.problem)
        return outcome

    async def _say(self, data: bytes) -> Outcome:
        return unpack_outcome(await self._bus.ask(self._subject, pack(Said(data)), self._seconds))


class RoleSession:
    """A session, which only its key can use. `id` names it."""

    def __init__(self, client: RoleClient, id: str) -> None:
        self.id = id
        self._client = client

    async def activate(self, role: str, *appointments: bytes) -> str:
        """Activate a role, showing certificates; returns it in full. `_` or a bare name leaves parameters open."""
        return (await self._client.do(Activate(self.id, role, appointments))).role

    async def deactivate(self, role: str) -> Sequence[str]:
        """Give a role up; returns what ended by it."""
        return (await self._client.do(Deactivate(self.id, role))).ended

    async def roles(self) -> tuple[str, ...]:
        """The active roles, in the order of their activation."""
        return (await self.look()).roles

    async def look(self) -> Outcome:
        """The active roles, and how long they last by themselves."""
        return await self._client.do(Look(self.id))

    async def appoint(
        self, content: str, holder: str, seconds: float | None = None, bound: bool = False
    ) -> bytes:
        """Give somebody an appointment such as `nurse(bob, w7)`; returns the certificate."""
        return (await self._client.do(Appoint(self.id, content, holder, seconds, bound))).appointment

    async def revoke(self, appointment: bytes) -> Sequence[str]:
        """Revoke an appointment that this principal gave, or could give now; returns what ended by it."""
        return (await self._client.do(Revoke(appointment, self.id))).ended

    async def end(self) -> Sequence[str]:
        """End the session; returns what ended by it."""
        return (await self._client.do(End(self.id))).ended
