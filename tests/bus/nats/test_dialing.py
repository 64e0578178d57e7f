"""Connecting to servers that choose the nonce, and have nothing of what is signed, and to some that hang up."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from itertools import count
from math import inf
from urllib.parse import urlsplit

import pytest

from authz import Identity, PublicKey
from authz.errors import InvalidSignature
from bus import Connection, NatsServer, NotConnected
from tests.false_server import lured
from tests.mutations.mutation import ROOT
from tests.waiting import PATIENCE

PACKAGES = ("authz", "bus", "pdp", "pep", "pubsub_core", "sdp_cache", "spark_eval", "authfabric")


def prefixes() -> list[str]:
    """The beginnings of all that the project signs, read from its code."""
    found = set[str]()
    for package in PACKAGES:
        for file in (ROOT / package).rglob("*.py"):
            text = file.read_text()
            found.update(re.findall(r'b"(authfabric [^"]*)\\0"', text))
            found.update(f"authfabric {purpose} 1" for purpose in re.findall(r'\bSeal\(\s*"([^"]+)"', text))
    return sorted(found)


async def test_no_server_gets_the_signature_of_an_identity_over_what_it_chose():
    """Neither the bare text nor one that begins as something else that is signed."""
    identity, known = Identity.generate(), prefixes()
    assert {"authfabric capability 1", "authfabric broker welcome 1"} <= set(known)
    for nonce in ("anything", *(f"{prefix}\0anything" for prefix in known)):
        shown = await lured(identity, nonce)
        with pytest.raises(InvalidSignature):
            identity.public.verify(shown.signature, nonce.encode())
        PublicKey.parse(shown.key).verify(shown.signature, nonce.encode())


@contextlib.asynccontextmanager
async def hanging_up(server: NatsServer, times: float) -> AsyncIterator[str]:
    """The address of a server that hangs up on so many clients as soon as they are let in."""
    accepted = count(1)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hangs_up = next(accepted) <= times
        place = urlsplit(server.url)
        answers, questions = await asyncio.open_connection(place.hostname, place.port)

        async def pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter, last: bytes) -> None:
            with contextlib.suppress(OSError):
                while data := await source.read(65_536):
                    target.write(data)
                    if last and last in data:
                        break
            for each in (writer, questions):
                each.close()

        await asyncio.gather(
            pass_on(reader, questions, b""), pass_on(answers, writer, b"PONG" if hangs_up else b"")
        )

    async with await asyncio.start_server(serve, "127.0.0.1") as listening:
        yield f"nats://127.0.0.1:{listening.sockets[0].getsockname()[1]}"


async def test_a_server_that_hangs_up_on_whom_it_has_let_in_is_tried_again(server):
    async with hanging_up(server, times=3) as url, Connection(url, connect_seconds=PATIENCE) as bus:
        heard = asyncio.Event()
        bus.send(bus.expect(lambda *_: heard.set()), b"")
        await asyncio.wait_for(heard.wait(), PATIENCE)


async def test_but_not_for_ever(server):
    async with hanging_up(server, times=inf) as url:
        with pytest.raises(NotConnected):
            await Connection(url, connect_seconds=0.5).__aenter__()
