"""What strangers and callers of the gateway may send, and for how long it waits for it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from pep.gateway.server import listen, serving
from tests.pep.gateway.running import EVALUATION, EVALUATIONS, question

START = b"POST /access/v1/evaluation HTTP/1.1\r\nHost: x\r\n"
CHUNKED = START + b"Transfer-Encoding: chunked\r\n\r\n"
PART = b"a" * 65_536
PARTS = 256
LONG_NAME = 900_000


async def accepted(address: str, beginning: bytes, part: bytes = PART) -> int:
    """How many parts a server takes after this beginning before it ends the connection."""
    where = urlsplit(address)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    writer.write(beginning)
    ended = asyncio.create_task(reader.read())
    try:
        for taken in range(PARTS):
            writer.write(part)
            await writer.drain()
            if ended.done():
                return taken
        return PARTS
    except OSError:
        return taken
    finally:
        ended.cancel()
        writer.close()


@pytest.mark.parametrize(
    ("beginning", "part"),
    [
        pytest.param(b"POST /", PART, id="address"),
        pytest.param(START + b"X-Long: ", PART, id="header"),
        pytest.param(START, b"X-Other: " + PART + b"\r\n", id="headers"),
        pytest.param(CHUNKED + b"1;", PART, id="chunk"),
        pytest.param(CHUNKED + b"0\r\nX-Long: ", PART, id="trailer"),
    ],
)
async def test_a_stranger_sends_no_more_than_a_head_besides_a_body(address, beginning, part):
    assert await accepted(address, beginning, part) < PARTS


async def test_a_connection_on_which_no_request_arrives_is_ended():
    async def nothing(scope, receive, send) -> None:
        raise AssertionError("nothing was asked")

    async with serving(nothing, "127.0.0.1", 0, receive=0.2) as port:
        for beginning in (b"", b"\r\n", START):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(beginning)
            await asyncio.wait_for(_ended(reader), 20.0)
            writer.close()


async def _ended(reader: asyncio.StreamReader) -> None:
    with contextlib.suppress(ConnectionResetError):
        assert await reader.read() == b""


def test_a_long_head_and_a_long_body_are_answered(client):
    body = question() | {"evaluations": [{"context": {"note": "x" * 9_000}}] * 100}
    answer = client.post(EVALUATIONS, json=body, headers={"X-Long": "x" * 30_000})
    assert answer.json() == {"evaluations": [{"decision": True}] * 100}


def test_names_too_long_to_be_asked_about_are_not_remembered(client, process):
    """As many as are remembered would take more memory than there is."""

    def ask(number: int) -> None:
        thing = {"type": "record", "id": f"{number}{'x' * LONG_NAME}"}
        assert client.post(EVALUATION, json=question() | {"resource": thing}).status_code == 400

    for number in range(10):
        ask(number)
    before = resident(process)
    for number in range(10, 110):
        ask(number)
    assert resident(process) - before < 100 * LONG_NAME / 2


def resident(process: int) -> int:
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_defaults_that_stand_for_a_thousand_evaluations_are_counted_as_often(client):
    """A megabyte of them, written out for each, would keep everybody else waiting for minutes."""
    body = question() | {"evaluations": [{}] * 1_000}
    body["subject"]["properties"] = {f"name-{number}": number for number in range(5_000)}
    answer = client.post(EVALUATIONS, json=body)
    assert (answer.status_code, "written out" in answer.text) == (413, True)
    del body["subject"]["properties"]
    assert len(client.post(EVALUATIONS, json=body).json()["evaluations"]) == 1_000


@pytest.mark.parametrize("depth", [900, 990, 100_000])
def test_what_is_nested_deeply_is_answered_or_refused_as_such(client, depth):
    nested = (
        b'{"subject":{"type":"user","id":"alice","properties":{"a":' + b"[" * depth + b"]" * depth + b"}}"
    )
    rest = b',"action":{"name":"read"},"resource":{"type":"record","id":"record-1"},"evaluations":[{},{}]}'
    for where in (EVALUATION, EVALUATIONS):
        answer = client.post(where, content=nested + rest, headers={"Content-Type": "application/json"})
        assert answer.status_code in (200, 400), answer.text


def test_nobody_is_redirected_to_where_the_host_header_says(client):
    answer = client.post(EVALUATION + "/", json=question(), headers={"Host": "evil.example"})
    assert (answer.status_code, "location" in answer.headers) == (404, False)


@pytest.mark.parametrize("path", ["evaluation", "evaluations", "search/action", "search/resource"])
@pytest.mark.parametrize(
    "value", ["9" * 25, "9" * 5000, "[" * 3000 + "]" * 3000], ids=["large", "long", "deep"]
)
async def test_what_cannot_be_asked_about_is_refused_and_no_fault_of_the_gateway(address, path, value):
    body = json.dumps(question()).replace("{", '{"context": {"x": ' + value + "}, ", 1)
    async with httpx.AsyncClient(base_url=address) as client:
        headers = {"Content-Type": "application/json"}
        answer = await client.post(f"/access/v1/{path}", content=body, headers=headers)
    assert answer.status_code == 400


@pytest.mark.parametrize("apart", [False, True], ids=["at once", "in parts"])
async def test_a_body_is_no_request_although_another_protocol_is_offered(address, apart):
    """A client that offers HTTP/2 is answered; what stands in the body is not read as a request of its own."""
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAA\r\n"
    hidden = b"GET /.well-known/authzen-configuration HTTP/1.1\r\nHost: x\r\n\r\n"
    asked = json.dumps(question()).encode()

    def head(body: bytes) -> bytes:
        return START + offer + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)

    where = urlsplit(address)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    statuses = []
    for body in (hidden, asked, asked):
        for part in (head(body), body) if apart else (head(body) + body,):
            writer.write(part)
            await writer.drain()
        statuses.append((await reader.readline()).split()[1])
        while (line := await reader.readline()) != b"\r\n":
            if line.startswith(b"content-length"):
                length = int(line.split()[1])
        text = await reader.readexactly(length)
    assert (statuses, json.loads(text)) == ([b"400", b"200", b"200"], {"decision": True})
    writer.close()


def test_an_answer_is_sent_at_once():
    with contextlib.closing(listen("127.0.0.1", 0, 8)) as listening:
        listening.setblocking(True)
        with socket.create_connection(listening.getsockname()), listening.accept()[0] as connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
