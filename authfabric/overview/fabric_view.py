"""One look at a fabric: members, releases, servers and streams, as `status`, `doctor` and the console show them."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Collection, Sequence
from time import monotonic, time

import msgspec

from authz import AuthFabricError, PublicKey
from authz.release import Released
from bus.errors import BusError
from bus.feeds import SILENT_SECONDS, Entry, Feed, Heard, MemberPoll
from bus.nats import Connection
from bus.stores import ConsumerState, StreamState, consumer_states, owner_of, stream_states
from bus.wire import subjects

STREAM_SECONDS = 2.0
"""Time within which a stream with a leader answers."""


class State(enum.StrEnum):
    """How a member stands to what is in force."""

    IN_FORCE = "in force"
    BEHIND = "behind"
    """It decides by an earlier release, or by one that is not known here."""
    BLOCKED = "blocked"
    """It says that something is in the way."""
    WAITING = "waiting"
    """It has no release to decide by."""
    SILENT = "silent"
    """It was heard lately and is not any more."""


class ReleaseView(msgspec.Struct, frozen=True):
    """A release, and who signed it."""

    number: int
    hash: str
    signer: str
    at: float
    message: str
    name: str
    forced: str
    bundle: str


class MemberView(msgspec.Struct, frozen=True):
    """A member as it was last heard."""

    name: str
    kind: str
    state: State
    number: int
    hash: str
    lag: int | None
    """Releases that it is behind; None if its release is not in the history kept here."""
    problem: str
    lease: float | None
    heard: float
    """Seconds since its last word."""
    signer: str = ""
    since: float = 0.0
    """When its release came into force there, by its own clock; 0 if that is not known."""
    version: str = ""
    started: float = 0.0
    trust: list[str] = []
    clock: float | None = None
    """Seconds by which its clock is ahead of this one; None if unknown."""
    place: str = ""
    """The subject token of the key by which it connects: its consumers are called after it."""
    load: dict[str, float] = {}
    lacks: list[str] = []
    """The rights that servers have refused it."""
    latencies: tuple[int, ...] = ()
    """How many of its answers took how long, in the buckets of `Latencies`."""
    pid: int = 0
    """The id of its process; 0 if that is not known."""
    host: str = ""
    """The machine on which that is the id."""


class NodeView(msgspec.Struct, frozen=True):
    """A NATS server that keeps streams."""

    name: str
    leads: int
    """How many streams it leads."""
    keeps: int
    behind: list[str]
    """The streams of which its copy is not current."""
    silent: float
    """Seconds since a leader last heard of it."""


class FabricView(msgspec.Struct, frozen=True):
    """Everything that one look has found."""

    domain: str
    server: str
    """The server this was asked at: address, name and version."""
    at: float
    trust: list[str]
    """By whose word releases were verified."""
    in_force: ReleaseView | None
    releases: list[ReleaseView]
    """The history that is kept, the newest first."""
    problem: str
    """What is wrong with the releases in the store."""
    members: list[MemberView]
    streams: list[StreamState]
    nodes: list[NodeView]
    consumers: list[ConsumerState]

    @property
    def reading(self) -> list[tuple[str, int]]:
        """Who reads events, and how many messages each has yet to read."""
        placed = [each for each in self.members if each.place]
        placed.sort(key=lambda each: each.kind == "broker")  # before the PEP that it has in it, of one key
        names = {each.place: each.name for each in placed}
        waiting = Counter[str]()
        for each in self.consumers:
            waiting[names.get(owner_of(each.name), each.name)] += each.waiting
        return sorted(waiting.items())

    @property
    def complete(self) -> bool:
        """Whether every member that was heard decides by exactly what is in force."""
        return bool(self.members) and all(each.state is State.IN_FORCE for each in self.members)


async def look(
    bus: Connection,
    domain: str,
    trusted: Collection[PublicKey],
    poll: MemberPoll,
    silent: float | None = None,
) -> FabricView:
    """Look at the store and at what members have said to a poll. Raises NotConnected.

    A member counts as silent after so many seconds without a word.
    """
    problem, history = "", list[Entry]()
    try:
        history = await Feed(bus, domain, trusted).history()
    except BusError as error:
        problem = str(error)
    if history and history[-1].released is None:
        problem = f"the newest entry is refused: {history[-1].problem}"
    streams = await stream_states(bus, STREAM_SECONDS)
    return FabricView(
        domain,
        f"{bus.server} {bus.node}",
        time(),
        sorted(map(str, trusted)),
        newest(history),
        [release_view(each.released) for each in reversed(history) if each.released is not None],
        problem,
        describe(poll, [each.released.hash for each in history if each.released is not None], silent),
        streams,
        _nodes(streams),
        await consumer_states(bus, subjects.PARCELS, STREAM_SECONDS),
    )


def newest(history: Sequence[Entry]) -> ReleaseView | None:
    """What is in force by a history: its newest verified release."""
    return next(
        (release_view(each.released) for each in reversed(history) if each.released is not None), None
    )


def release_view(released: Released) -> ReleaseView:
    release = released.release
    return ReleaseView(
        released.epoch,
        released.hash,
        str(released.signer),
        release.at,
        release.message,
        release.name,
        release.forced,
        release.bundle,
    )


def look_again(view: FabricView, poll: MemberPoll, silent: float) -> FabricView:
    """The same view with what members have said since."""
    members = describe(poll, [each.hash for each in reversed(view.releases)], silent)
    return msgspec.structs.replace(view, at=time(), members=members)


def describe(poll: MemberPoll, hashes: Sequence[str], silent: float | None = None) -> list[MemberView]:
    """The members that a poll has heard, each against the releases that there are, oldest first, by hash."""
    now = monotonic()
    most = SILENT_SECONDS if silent is None else silent
    return [_member(name, each, hashes, now, most) for name, each in poll.members.named().items()]


def _member(name: str, heard: Heard, hashes: Sequence[str], now: float, silent: float) -> MemberView:
    status, details = heard.status, heard.status.details
    lag = len(hashes) - 1 - hashes.index(status.release) if status.release in hashes else None
    view = MemberView(
        name,
        status.kind,
        _state(heard, lag, now - heard.heard > silent),
        status.epoch,
        status.release,
        lag,
        status.problem,
        status.lease,
        now - heard.heard,
        clock=heard.ahead,
        place=subjects.place(PublicKey(status.signer)) if status.signer else "",
    )
    if details is None:
        return view
    return msgspec.structs.replace(
        view,
        signer=_key(details.signer),
        since=details.since,
        version=details.version,
        started=details.started,
        trust=[_key(each) for each in details.trust],
        load=details.load,
        lacks=list(details.lacks),
        latencies=details.latencies,
        pid=details.pid,
        host=details.host,
    )


def _state(heard: Heard, lag: int | None, silent: bool) -> State:
    if silent:
        return State.SILENT
    if not heard.status.release:
        return State.WAITING
    if not heard.status.ok:
        return State.BLOCKED
    return State.IN_FORCE if lag == 0 else State.BEHIND


def _key(raw: bytes) -> str:
    try:
        return str(PublicKey(raw)) if raw else ""
    except AuthFabricError:
        return "unreadable"


def _nodes(streams: Sequence[StreamState]) -> list[NodeView]:
    nodes = dict[str, NodeView]()
    for stream in streams:
        for number, copy in enumerate(stream.copies):
            known = nodes.get(copy.server, NodeView(copy.server, 0, 0, [], 0.0))
            nodes[copy.server] = NodeView(
                copy.server,
                known.leads + (number == 0),
                known.keeps + 1,
                known.behind if copy.current else [*known.behind, stream.name],
                max(known.silent, copy.silent),
            )
    return [nodes[name] for name in sorted(nodes)]
