"""Health and metrics over https: by the certificate given, and by the one that takes its place."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import ssl
import struct
import threading
import urllib.error
import urllib.request
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from bus.runtime import HealthTls, in_background, serve_vitals
from bus.runtime.health_server import HealthPortTaken
from tests.self_signed import self_signed
from tests.waiting import eventually


class Well:
    def live(self) -> bool:
        return True

    def ready(self) -> bool:
        return True


def fetch(port: int, authority: Path, path: str = "/healthz") -> str:
    context = ssl.create_default_context(cafile=authority)
    with urllib.request.urlopen(f"https://127.0.0.1:{port}{path}", timeout=20, context=context) as answer:
        return answer.read().decode()


def test_health_and_metrics_are_served_over_https_and_not_in_clear(tmp_path):
    tls = HealthTls(tmp_path / "own.pem", self_signed(tmp_path, "own"))
    self_signed(tmp_path, "other")
    with serve_vitals(Well(), [], 0, tls=tls) as port:
        assert fetch(port, tmp_path / "own.pem") == "ok\n"
        assert "authfabric_background_failures" in fetch(port, tmp_path / "own.pem", "/metrics")
        with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
            fetch(port, tmp_path / "other.pem")
        with pytest.raises((urllib.error.URLError, OSError)):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=20)


def test_a_certificate_that_takes_the_place_of_another_is_served_without_a_restart(tmp_path):
    tls = HealthTls(tmp_path / "own.pem", self_signed(tmp_path, "own"))
    newer = self_signed(tmp_path, "newer")
    with serve_vitals(Well(), [], 0, tls=tls) as port:
        for source, target in ((tmp_path / "newer.pem", tls.certificate), (newer, tls.key)):
            shutil.copy(source, target)
            os.utime(target, (2_000_000_000, 2_000_000_000))
        assert fetch(port, tmp_path / "newer.pem") == "ok\n"


def test_a_certificate_that_cannot_be_used_is_named(tmp_path):
    (tmp_path / "own.pem").write_text("nonsense")
    (tmp_path / "own.key").write_text("nonsense")
    tls = HealthTls(tmp_path / "own.pem", tmp_path / "own.key")
    with pytest.raises(HealthPortTaken), serve_vitals(Well(), [], 0, tls=tls):
        pass


def test_strangers_who_hang_up_do_not_write_the_log(capfd):
    with serve_vitals(Well(), [], 0) as port:
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", port)) as stranger:
                stranger.setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                )  # no farewell
                stranger.sendall(b"GET /healthz")
        assert readiness(port) == (200, "ok\n")  # so all of them were let in
        for each in threading.enumerate():
            if "process_request" in each.name:
                each.join()
    assert capfd.readouterr() == ("", "")


def readiness(port: int) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


async def test_a_process_whose_work_has_failed_is_not_ready_and_names_it_until_it_runs_again():
    failing, waiting = [True], asyncio.Event()

    async def counting() -> None:
        if failing:
            raise RuntimeError("out of luck")
        await waiting.wait()

    async with AsyncExitStack() as stack:
        port = stack.enter_context(serve_vitals(Well(), [], 0))
        assert readiness(port) == (200, "ok\n")
        works = [in_background(stack, counting) for _ in range(2)]
        await eventually(lambda: all(work.failures for work in works))
        status, said = await asyncio.to_thread(readiness, port)
        assert status == 503
        assert said.count("counting has failed") == 1
        failing.clear()
        await eventually(lambda: readiness(port) == (200, "ok\n"))
