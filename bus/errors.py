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


class StoreUnavailable(BusError):
    """A store on the bus, that of policies for instance, cannot be reached or does not work."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"the store does not answer: {problem}")
        self.problem = problem


class StoreFull(StoreUnavailable):
    """A store takes nothing more: its disk is full, or a limit is reached."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.args = (f"the store is full: {problem}",)


class NotPermitted(StoreUnavailable):
    """These credentials do not hold the right that is needed: `right` is its name, `subject` where it was needed."""

    def __init__(self, subject: str, right: str = "") -> None:
        super().__init__("a right is missing")
        needed = f"the right `{right}`" if right else "a right"
        self.args = (
            f"not permitted: {needed} is needed, and these credentials do not hold it (`{subject}`):"
            " have it granted by `authfabric domain grant`, or use other credentials",
        )
        self.subject = subject
        self.right = right


class ContentMissing(BusError):
    """The store does not have something that a release names, or has something else in its place."""

    def __init__(self, hash_: str) -> None:
        super().__init__(f"the policy store does not have the content `{hash_[:16]}`")
        self.hash = hash_


class Overtaken(BusError):
    """Somebody else released in between: `expected` is the epoch that was thought to be newest, `found` is."""

    def __init__(self, domain: str, expected: int, found: int) -> None:
        super().__init__(
            f"the newest release of `{domain}` is {found}, not {expected} as when this one was made:"
            " look at what changed, then push again"
        )
        self.domain = domain
        self.expected = expected
        self.found = found
