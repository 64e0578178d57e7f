"""What can be wrong with role instances and appointments. Wrong policy text is authz.errors.InvalidSyntax."""

from __future__ import annotations

from authz.errors import AuthFabricError


class InvalidTerm(AuthFabricError):
    """A role instance, fact or pattern whose text or parameters cannot be read."""


class InvalidAppointment(AuthFabricError):
    """A certificate that does not count here: `name` is the appointment, `problem` says why."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"the appointment `{name}` {problem}")
        self.name = name
        self.problem = problem


class NotEntitled(AuthFabricError):
    """A principal who may not issue or revoke an appointment: no role of theirs allows it."""

    def __init__(self, principal: str, verb: str, name: str) -> None:
        super().__init__(f"`{principal}` may not {verb} `{name}`: no active role of theirs allows it")
        self.principal = principal
        self.verb = verb
        self.name = name


class UnknownSession(AuthFabricError):
    """A session that was never opened, or is closed."""

    def __init__(self, session: str) -> None:
        super().__init__(f"there is no open session `{session}`")
        self.session = session


class SessionInUse(AuthFabricError):
    """A session that is already open: each needs an id of its own."""

    def __init__(self, session: str) -> None:
        super().__init__(f"the session `{session}` is already open: choose another id, or close it first")
        self.session = session


class NotWatched(AuthFabricError):
    """Data offered for a channel nobody listens to: a change could slip in between. Watch it first."""

    def __init__(self, channel: str) -> None:
        super().__init__(
            f"the channel `{channel}` is not watched: watch it before reading what it reports on"
        )
        self.channel = channel


class RolesUnavailable(AuthFabricError):
    """It is not known at the moment which roles are active: `problem` says why."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"it is not known which roles are active: {problem}")
        self.problem = problem


class CommandRefused(AuthFabricError):
    """Something that was said to a role service and is not done: `again` if it may be said again, anew."""

    def __init__(self, problem: str, again: bool = False) -> None:
        super().__init__(problem)
        self.problem = problem
        self.again = again
