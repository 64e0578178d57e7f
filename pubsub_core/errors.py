"""What can go wrong in the event service."""

from __future__ import annotations

from collections.abc import Iterable

from authz.errors import AuthFabricError


class EventError(AuthFabricError):
    """The root of the event service's errors."""


class InvalidType(EventError):
    """A type that cannot be defined so: `field` says where, `problem` what would be right."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"`{field}` {problem}")
        self.field = field
        self.problem = problem


class TypeRefused(EventError):
    """A definition that is forged, altered or made without the right to: `problem` says what it lacks."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"the definition of `{name}` is refused: {problem}")
        self.name = name
        self.problem = problem


class UnknownType(EventError):
    """A type, or a version of one, of which there is no definition here."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no event type `{name}` here: publish its definition first")
        self.name = name


class AmbiguousType(UnknownType):
    """A name by which several owners, all trusted with it, call types of theirs: `owners` are their keys."""

    def __init__(self, name: str, owners: Iterable[str]) -> None:
        self.owners = tuple(owners)
        EventError.__init__(
            self,
            f"`{name}` is a type of {' and of '.join(f'`{each}`' for each in self.owners)}, and all of them are"
            f" trusted with this name: say whose it is by `--names {name}=KEY`",
        )
        self.name = name


class InvalidEvent(EventError):
    """An event that does not fit its type: `attribute` says where, `problem` what would be right."""

    def __init__(self, attribute: str, problem: str) -> None:
        super().__init__(f"`{attribute}` {problem}")
        self.attribute = attribute
        self.problem = problem


class KeysAwaited(InvalidEvent):
    """An event of a sealed type whose keys the broker does not hold: it, and perhaps others, were not published."""


class InvalidFilter(EventError):
    """A filter that cannot be meant about this type: `text` is the part at fault, `problem` what would be right."""

    def __init__(self, text: str, problem: str) -> None:
        super().__init__(f"`{text}` {problem}")
        self.text = text
        self.problem = problem


class InvalidObligation(EventError):
    """An obligation that a broker does not understand, so that it cannot let through what depends on it."""

    def __init__(self, obligation: str, problem: str) -> None:
        super().__init__(f"the obligation `{obligation}` {problem}")
        self.obligation = obligation
        self.problem = problem


class Refused(EventError):
    """The answer is no: `action` on `name` is not permitted, or no longer."""

    def __init__(self, action: str, name: str, problem: str = "") -> None:
        super().__init__(f"`{action}` of `{name}` is not permitted" + (f": {problem}" if problem else ""))
        self.action = action
        self.name = name
        self.problem = problem


class CredentialRefused(Refused):
    """A credential by which nobody can connect: `problem` says why, and what to do."""

    def __init__(self, problem: str) -> None:
        super().__init__("connect", "credential", problem)
        self.args = (f"the credential {problem}",)


class NotKept(EventError):
    """The broker keeps what it passes on, and cannot at the moment: nothing of it was published. `problem` says why."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"not published, since it cannot be kept: {problem}")
        self.problem = problem


class ReplayIncomplete(EventError):
    """All past events that could be had were read, and these are missing: `missing` says which, and why."""

    def __init__(self, name: str, missing: tuple[str, ...]) -> None:
        super().__init__(f"past events of `{name}` are missing: {'; '.join(missing)}")
        self.name = name
        self.missing = missing


class EventsMissed(EventError):
    """A gap that was used as if it were an event: events of the type `name` are missing, as `problem` says."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{problem}; look for `Gap` among what a subscriber reads")
        self.name = name
        self.problem = problem


class NoBroker(EventError):
    """No broker of this name is up in the domain: `broker` and `domain` say which was looked for."""

    def __init__(self, broker: str, domain: str) -> None:
        super().__init__(
            f"no broker `{broker}` answers in the domain `{domain}`: start it (`authfabric up --events`, or `broker"
            " serve`), or name both as it has them"
        )
        self.broker = broker
        self.domain = domain


class DurableRefused(EventError):
    """A durable subscription that cannot be had so: `name` is its name, `problem` says why."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"the durable subscription `{name}` {problem}")
        self.name = name
        self.problem = problem


class DurableElsewhere(EventError):
    """A durable subscription that another broker delivers at the moment: `broker` is its name."""

    def __init__(self, name: str, broker: str) -> None:
        super().__init__(f"the durable subscription `{name}` is delivered by the broker `{broker}`")
        self.name = name
        self.broker = broker


class SessionLost(EventError):
    """The broker has ended a client's session: `problem` says why."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"the session is over: {problem}")
        self.problem = problem


class CallRefused(Refused):
    """The broker did not do what it was asked to; `fault` is `refused`, `invalid` or `failed`."""

    def __init__(self, action: str, name: str, problem: str, fault: str) -> None:
        super().__init__(action, name, problem)
        self.args = (problem,)
        self.fault = fault


class BrokerUntrusted(EventError):
    """The client trusts nobody who vouches for its broker."""

    def __init__(self, broker: str, key: str, type_: str, problem: str) -> None:
        super().__init__(
            f"the broker `{broker}` with the key `{key}` is not trusted with `{type_}`: {problem};"
            " `trust=UNVERIFIED` believes any broker"
        )
        self.broker = broker
        self.key = key
        self.type = type_
        self.problem = problem


class WordTooLong(EventError):
    """A vouch, or its withdrawal, names more types than others would read."""

    def __init__(self, types: int) -> None:
        super().__init__(f"{types} types are too many for one vouch: name fewer at a time, or none for all")
        self.types = types
