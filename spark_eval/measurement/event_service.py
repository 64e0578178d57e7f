"""A content-based event service in a process of its own: the matcher of the brokers behind TCP connections.

A notification is a set of named values, a filter a conjunction of comparisons with them. Whoever has subscribed a
filter that lets a notification through is sent it once. It stands where the paper's Siena stood, and is none: filters
are looked up by predicate-indexed matching (`authz.predicate.matching`), and not by binary decision diagrams.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence

import msgspec

from authz.predicate import And, Equal, Path
from authz.predicate.matching import Matcher
from bus.errors import BadMessage
from bus.runtime import run_fast
from bus.wire import Answers, pack, unpack_questions
from pdp.engine import Engine
from spark_eval.measurement.frames import FrameLink, answer_calls, dial, port_of

OBJECT, ANSWERED = "object", "answered"
"""How requests name their object, and with what the names of an answer's values begin."""


class Subscribe(msgspec.Struct, frozen=True, tag=True):
    """Interest in notifications that have these values; `number` tells it from others of the same client."""

    number: int
    values: dict[str, str]


class Unsubscribe(msgspec.Struct, frozen=True, tag=True):
    number: int


class Publish(msgspec.Struct, frozen=True, tag=True):
    values: dict[str, str]
    payload: bytes


Message = Subscribe | Unsubscribe | Publish
_decoder = msgspec.msgpack.Decoder(Message)
encode = msgspec.msgpack.Encoder().encode


class EventService:
    """The filters of everyone who is connected."""

    def __init__(self) -> None:
        self._matcher: Matcher[tuple[FrameLink, int]] = Matcher()
        self._filters: dict[FrameLink, set[int]] = {}

    def __len__(self) -> int:
        return len(self._matcher)

    def take(self, link: FrameLink, message: bytes) -> None:
        match _decoder.decode(message):
            case Subscribe(number, values):
                self._matcher.add((link, number), _predicate(values))
                self._filters.setdefault(link, set()).add(number)
            case Unsubscribe(number):
                self._matcher.remove((link, number))
                self._filters[link].discard(number)
            case Publish(values, payload):
                for each in dict.fromkeys(found for found, _ in self._matcher.match(values)):
                    each.send(payload)

    def forget(self, link: FrameLink) -> None:
        """A client is gone, and its filters with it."""
        for number in self._filters.pop(link, ()):
            self._matcher.remove((link, number))


def answered(names: Mapping[str, str]) -> dict[str, str]:
    """The values of an answer to a request with these names."""
    return {f"{ANSWERED}_{name}": value for name, value in names.items()}


async def serve_events(engine: Engine, address: str, objects: Sequence[str]) -> FrameLink:
    """A PDP on an event service: it subscribes to each object, decides, and publishes its answers."""

    def take(link: FrameLink, payload: bytes) -> None:
        try:
            (request,) = unpack_questions(payload).requests
        except BadMessage:
            return
        names = {"subject": request.subject.id, "object": request.object.id, "action": request.action.id}
        link.send(encode(Publish(answered(names), pack(Answers([engine.evaluate(request)])))))

    host, _, port = address.partition(":")
    link = await dial(host, int(port), take)
    for number, name in enumerate(objects):
        link.send(encode(Subscribe(number, {OBJECT: name})))
    return link


def _predicate(values: Mapping[str, str]) -> And | Equal:
    terms = tuple(Equal(Path("event", (name,)), value) for name, value in values.items())
    return terms[0] if len(terms) == 1 else And(terms)


async def serve() -> None:
    service = EventService()
    server = await answer_calls("127.0.0.1", service.take, service.forget)
    print(json.dumps({"url": f"127.0.0.1:{port_of(server)}"}, indent=2), flush=True)
    stdin = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), sys.stdin)
    await stdin.read()


def main() -> None:
    run_fast(serve())
