"""Held releases: each replica reports the release that it holds, with the release itself as proof.

Nobody's word counts for anything here: an answer is a release that a trusted key has signed, and its content is
verified by the hashes in it. So a store that has lost its newest release is found out, and can get it back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

import msgspec

from authz import PublicKey
from authz.release import Released, ReleaseRefused, release_hash
from bus.errors import BadMessage, ContentMissing, NoResponders, ReplyTimeout
from bus.nats import Connection
from bus.services import responding
from bus.stores import chunk_hashes
from bus.wire import Unpack, pack, subjects

SLICE_BYTES = 256 * 1024
"""Maximum bytes of a release or its content in one answer."""
MAX_BYTES = 128 * 1024 * 1024
"""Maximum bytes of content that are fetched."""
WAIT_SECONDS = 5.0
"""Maximum seconds to wait for the first answer, or for a lost connection. No wait where nobody listens."""
QUIET_SECONDS = 0.1
"""Seconds without a further answer after which no more are expected."""
SLICE_SECONDS = 3.0
"""Time within which a slice must come."""


class ReleaseRequest(msgspec.Struct, frozen=True, array_like=True):
    """Which release do you hold? Or, with its hash, a slice of it or of its content."""

    release: str = ""
    content: bool = False
    start: int = 0


class ReleaseSlice(msgspec.Struct, frozen=True, array_like=True):
    """What a replica holds; without a hash if it holds nothing, or not what was asked for."""

    member: str = ""
    release: str = ""
    """The release's hash."""
    size: int = 0
    """Of all of it, in bytes."""
    data: bytes = b""


_unpack_question = Unpack(ReleaseRequest)
_unpack_slice = Unpack(ReleaseSlice)


@dataclass(frozen=True, slots=True)
class HeldRelease:
    """A release as it is stored, and its content."""

    release: bytes
    content: bytes


@dataclass(frozen=True, slots=True)
class Offer:
    """A release that replicas hold, verified."""

    released: Released
    data: bytes
    members: tuple[str, ...]


def offering(
    bus: Connection, domain: str, member: str, holding: Callable[[], HeldRelease | None]
) -> AbstractAsyncContextManager[None]:
    """Tell whoever asks what is held here, for the length of the block."""

    async def answer(payload: bytes) -> bytes:
        try:
            question = _unpack_question(payload)
        except BadMessage:
            return pack(ReleaseSlice(member))
        found = holding()
        hash_ = release_hash(found.release) if found is not None else ""
        if found is None or question.release not in ("", hash_) or question.start < 0:
            return pack(ReleaseSlice(member))
        whole = found.content if question.content else found.release
        part = whole[question.start : question.start + SLICE_BYTES]
        return pack(ReleaseSlice(member, hash_, len(whole), part))

    return responding(bus, [subjects.held(domain)], answer, busy=pack(ReleaseSlice(member)), at_once=1)


async def ask_held(bus: Connection, domain: str, trusted: Collection[PublicKey]) -> list[Offer]:
    """The releases that replicas hold, the newest first. Raises NotConnected."""
    answers: asyncio.Queue[bytes | None] = asyncio.Queue()
    reply = bus.expect(lambda data, nobody: answers.put_nowait(None if nobody else data))
    found: dict[str, list[ReleaseSlice]] = {}
    await bus.wait_ready(WAIT_SECONDS)
    try:
        bus.send(subjects.held(domain), pack(ReleaseRequest()), reply)
        async with asyncio.timeout(WAIT_SECONDS) as waiting:
            while (data := await answers.get()) is not None:
                waiting.reschedule(asyncio.get_running_loop().time() + QUIET_SECONDS)
                try:
                    part = _unpack_slice(data)
                except BadMessage:
                    continue
                if part.release:
                    found.setdefault(part.release, []).append(part)
    except TimeoutError:
        pass
    finally:
        bus.forget(reply)
    offers = [await _offer(bus, domain, trusted, parts) for parts in found.values()]
    return sorted(filter(None, offers), key=lambda each: -each.released.epoch)


async def fetch_content(bus: Connection, domain: str, released: Released) -> bytes:
    """The content of a release, from whoever holds it. Raises ContentMissing, or NotConnected."""
    try:
        content = await _fetch(bus, domain, ReleaseRequest(released.hash, content=True), b"")
    except (NoResponders, ReplyTimeout):
        raise ContentMissing(released.release.bundle) from None
    if chunk_hashes(content) != released.release.chunks:
        raise ContentMissing(released.release.bundle)
    return content


async def _offer(
    bus: Connection, domain: str, trusted: Collection[PublicKey], parts: list[ReleaseSlice]
) -> Offer | None:
    """What the answers of those who hold the same release say; None if it is not verified."""
    first = parts[0]
    try:
        data = first.data
        if first.size > len(data):
            data = await _fetch(bus, domain, ReleaseRequest(first.release), data)
        released = Released.open(data, domain, trusted)
    except (ReleaseRefused, NoResponders, ReplyTimeout):
        return None
    members = tuple(sorted(part.member for part in parts))
    return Offer(released, data, members) if released.hash == first.release else None


async def _fetch(bus: Connection, domain: str, question: ReleaseRequest, begun: bytes) -> bytes:
    """The rest of something, slice by slice, from any who hold it."""
    whole = begun
    while True:
        asked = msgspec.structs.replace(question, start=len(whole))
        answer = await bus.ask(
            subjects.held(domain),
            pack(asked),
            SLICE_SECONDS,
            lambda data: _is_slice(data, question.release),
        )
        part = _unpack_slice(answer)
        whole += part.data
        if len(whole) >= min(part.size, MAX_BYTES) or not part.data:
            return whole


def _is_slice(data: bytes, release: str) -> bool:
    try:
        return _unpack_slice(data).release == release
    except BadMessage:
        return False
