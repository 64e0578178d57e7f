"""The example services as processes of their own: one that decides, and one whose fabric has no PDP."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, sleep

import httpx

from authz import Identity
from bus.server import NatsServer, free_ports

SERVICES = Path(__file__).parents[3] / "examples" / "services"
PATIENCE = 180.0
"""Seconds for a service to answer: importing a framework takes long on a busy machine."""


@contextlib.contextmanager
def process(name: str, *words: str, nats: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """A service, ended with the block; with a server's address it asks the fabric there."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("AUTHFABRIC_")}
    if nats:
        environment |= {
            "AUTHFABRIC_NATS_URL": nats,
            "AUTHFABRIC_TRUST": str(Identity.generate().public),
        }
    with subprocess.Popen([sys.executable, str(SERVICES / name), *words], env=environment) as running:
        try:
            yield running
        finally:
            running.kill()


def wait_until(is_up: Callable[[], object], running: subprocess.Popen[bytes]) -> None:
    deadline = monotonic() + PATIENCE
    while monotonic() < deadline:
        assert running.poll() is None, "the service has ended"
        with contextlib.suppress(Exception):
            if is_up():
                return
        sleep(0.05)
    raise AssertionError("the service does not answer")


@contextlib.contextmanager
def http_pair(
    name: str, server: NatsServer, path: str = "/health"
) -> Iterator[tuple[httpx.Client, httpx.Client]]:
    """A service that decides, and the same one without any PDP."""
    ports = free_ports(2)
    with (
        process(name, str(ports[0])) as one,
        process(name, str(ports[1]), nats=server.url) as other,
        httpx.Client(base_url=f"http://127.0.0.1:{ports[0]}", timeout=30) as deciding,
        httpx.Client(base_url=f"http://127.0.0.1:{ports[1]}", timeout=30) as failing,
    ):
        wait_until(lambda: deciding.get(path), one)
        wait_until(lambda: failing.get(path), other)
        yield deciding, failing


def as_user(user: str) -> dict[str, str]:
    return {"X-User": user}


def assert_denied(response: httpx.Response) -> None:
    """A problem that names no policy."""
    assert response.status_code == 403
    assert response.headers["content-type"].startswith("application/problem+json")
    assert response.json()["status"] == 403
    for secret in ("policy", "mallory", "ann-reads", "watermark", "salary"):
        assert secret not in response.text


def assert_unavailable(response: httpx.Response) -> None:
    assert response.status_code == 503
    assert int(response.headers["retry-after"]) > 0
    assert "contract" not in response.text
