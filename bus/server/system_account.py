"""The system account of NATS servers: it lists connections, and closes one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

import msgspec

from bus.nats import Connection

PAGE = 1024
SILENT_SECONDS = 1.5
"""Time after which a server that was asked counts as silent."""
FORGET_SECONDS = 60.0
"""Time after which a silent server is no longer expected to answer."""


@dataclass(frozen=True, slots=True)
class Connected:
    """A connection as its server knows it."""

    server: str
    number: int
    label: str
    """What it was admitted as."""
    subscriptions: int = 0
    messages: int = 0
    """How many it has sent."""
    bytes: int = 0


class _Server(msgspec.Struct, frozen=True):
    id: str


class _Client(msgspec.Struct, frozen=True):
    id: int
    user: str = ""


class _Event(msgspec.Struct, frozen=True):
    server: _Server
    client: _Client


class _Entry(msgspec.Struct, frozen=True):
    cid: int
    authorized_user: str = ""
    subscriptions: int = 0
    in_msgs: int = 0
    in_bytes: int = 0


class _List(msgspec.Struct, frozen=True):
    server_id: str
    connections: list[_Entry] = []


class _Answer(msgspec.Struct, frozen=True):
    data: _List


_decode_event = msgspec.json.Decoder(_Event).decode
_decode_answer = msgspec.json.Decoder(_Answer).decode


class System:
    """The servers of one cluster, seen through a connection to their system account."""

    def __init__(self, connection: Connection, account: str) -> None:
        self._connection = connection
        self._account = account
        self._nowhere = connection.expect(lambda *_: None)
        self._answered: dict[str, float] = {}
        """When each server has last answered, by the monotonic clock."""

    @property
    def alone(self) -> bool:
        """Whether of several servers one at most answers who looks each second: it may be cut off from the others."""
        now = monotonic()
        self._answered = {id_: at for id_, at in self._answered.items() if now - at < FORGET_SECONDS}
        answering = sum(now - at < SILENT_SECONDS for at in self._answered.values())
        return answering <= 1 < len(self._answered)

    @property
    def servers(self) -> frozenset[str]:
        """The servers that answer. One that was started anew is another."""
        now = monotonic()
        return frozenset(id_ for id_, at in self._answered.items() if now - at < SILENT_SECONDS)

    async def listen(
        self, on_connect: Callable[[Connected], None], on_end: Callable[[Connected], None]
    ) -> None:
        """Call back whenever somebody has connected to the account, or is gone."""
        for word, then in (("CONNECT", on_connect), ("DISCONNECT", on_end)):
            await self._connection.listen(f"$SYS.ACCOUNT.{self._account}.{word}", _event_handler(then))

    def look(self, on_page: Callable[[list[Connected]], None]) -> Callable[[], None]:
        """Ask every server who is connected; each answers by itself. Returns what ends listening for answers."""

        def hear(data: bytes, nobody: bool) -> None:
            if nobody:
                return
            answer = _decode_answer(data).data
            self._answered[answer.server_id] = monotonic()
            on_page([_connected(answer.server_id, each) for each in answer.connections])
            pages.setdefault(answer.server_id, 0)
            if len(answer.connections) == PAGE:
                pages[answer.server_id] += PAGE
                self._ask(f"$SYS.REQ.SERVER.{answer.server_id}.CONNZ", pages[answer.server_id], reply)

        pages: dict[str, int] = {}
        reply = self._connection.expect(hear)
        self._ask("$SYS.REQ.SERVER.PING.CONNZ", 0, reply)
        return lambda: self._connection.forget(reply)

    def disconnect(self, server: str, number: int) -> None:
        """End a connection at once. Whoever it was may come back, and is then asked for credentials again."""
        # Without somewhere to answer to, the server does nothing.
        self._connection.send(
            f"$SYS.REQ.SERVER.{server}.KICK", msgspec.json.encode({"cid": number}), self._nowhere
        )

    def _ask(self, subject: str, offset: int, reply: str) -> None:
        options = {"auth": True, "acc": self._account, "limit": PAGE, "offset": offset}
        self._connection.send(subject, msgspec.json.encode(options), reply)


def _event_handler(then: Callable[[Connected], None]) -> Callable[[str, str, bytes, bytes], None]:
    def hear(subject: str, reply: str, payload: bytes, headers: bytes) -> None:
        event = _decode_event(payload)
        then(Connected(event.server.id, event.client.id, event.client.user))

    return hear


def _connected(server: str, entry: _Entry) -> Connected:
    return Connected(
        server, entry.cid, entry.authorized_user, entry.subscriptions, entry.in_msgs, entry.in_bytes
    )
