"""What can go wrong on the bus."""

from __future__ import annotations

from authz.errors import AuthFabricError


class BusError(AuthFabricError):
    """The root of the bus's errors."""


class NotConnected(BusError):
    """There is no connection to a NATS server right now."""

    def __init__(self, url: str, problem: str = "") -> None:
        super().__init__(f"not connected to `{url}`" + (f": {problem}" if problem else ""))
        self.url = url
        self.problem = problem


class NoResponders(BusError):
    """Nobody listens on the subject asked."""

    def __init__(self, subject: str) -> None:
        super().__init__(f"nobody listens on `{subject}`")
        self.subject = subject


class ReplyTimeout(BusError):
    """Nobody gave a valid answer in time."""

    def __init__(self, subject: str, seconds: float) -> None:
        super().__init__(f"no valid answer on `{subject}` within {seconds:g} s")
        self.subject = subject
        self.seconds = seconds


class ServerFailed(BusError):
    """The embedded NATS server did not start, or ended by itself."""


class BadMessage(BusError):
    """A message that cannot be read: `field` says where, `problem` what is wrong."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"`{field}` {problem}" if field else problem)
        self.field = field
        self.problem = problem


class InvalidScope(BusError):
    """A scope whose text is not one of the five forms."""
