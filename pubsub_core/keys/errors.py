"""What can go wrong with sealed events and the keys they need."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from bus.errors import BusError
from pubsub_core.errors import EventError


class CannotOpen(EventError):
    """Something sealed that this side cannot open. It never says why: cryptographic failures all read alike."""

    def __init__(self) -> None:
        super().__init__("what is sealed cannot be opened")


class KeyAwaited(EventError):
    """Something sealed whose keys, or whose plan, are not here yet, but may be on their way: `type_id` says of what."""

    def __init__(self, type_id: str = "") -> None:
        super().__init__("what is sealed cannot be opened yet")
        self.type_id = type_id


class KeyMissing(EventError):
    """A value is to be sealed for a key group of which this side is no member: `group` is its id."""

    def __init__(self, group: str) -> None:
        super().__init__(
            f"no key of the group `{group}` is held here: join the group before publishing to it"
        )
        self.group = group


class InvalidPlan(EventError):
    """A plan of key groups that cannot be meant: `problem` says what would be right."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"the plan of key groups {problem}")
        self.problem = problem


class StateUnreadable(EventError):
    """The state of a key manager that its key does not open: `name` says which."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the state `{name}` cannot be opened with this key: it was altered, or sealed by a version that derived"
            " secrets otherwise; appoint a manager with a new key"
        )
        self.name = name


class PlanReplaced(EventError):
    """A type's keys were managed in this way before, and are managed in another since `since`."""

    def __init__(self, type_: str, since: float) -> None:
        at = datetime.fromtimestamp(since, UTC).isoformat(" ", "seconds")
        super().__init__(
            f"these options for the keys of `{type_}` were replaced by others, in force since {at}: start with those,"
            " or return to these with `--back`"
        )
        self.type = type_
        self.since = since


class OutOfStep(EventError):
    """A change of a key tree that a member cannot follow from where it is: it must ask for its seat anew."""

    def __init__(self, version: int, offered: int) -> None:
        super().__init__(f"from version {version} of the key tree one cannot follow the change to {offered}")
        self.version = version
        self.offered = offered


class AdmissionRefused(EventError):
    """A key group's manager gives no keys: `problem` says what the asker lacks."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"no keys are given: {problem}")
        self.problem = problem


class ManagerUntrusted(EventError):
    """Whoever answers for a type's keys was not appointed by the type's owner."""

    def __init__(self, type_id: str, problem: str) -> None:
        super().__init__(f"the key manager of the type `{type_id}` is not trusted: {problem}")
        self.type_id = type_id
        self.problem = problem


class ManagerUnable(BusError):
    """A key group's manager that cannot reach its own state for the moment: `problem` says why. Ask again."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"the key manager cannot give keys now: {problem}")
        self.problem = problem


class MarksUnknown(EventError):
    """The file in which a key manager remembers how far its groups had come cannot be used."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"the file of a key manager's marks `{path}` {problem}")
        self.path = path
        self.problem = problem


class ManagersUnknown(EventError):
    """The file in which a broker remembers who manages keys cannot be used."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"the file of key managers `{path}` {problem}")
        self.path = path
        self.problem = problem
