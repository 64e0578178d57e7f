"""Another host on this machine: a network namespace of its own, reached over a virtual link, where Linux allows it."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Host:
    """A network namespace: what to put before a command to run it there, and the addresses of both ends of the link."""

    prefix: tuple[str, ...]
    here: str
    there: str


@contextlib.contextmanager
def another_host() -> Iterator[Host | None]:
    """A host for the length of a block; None where namespaces cannot be made."""
    number = os.getpid() % 60_000
    name, near, far = f"afx{number}", f"afn{number}", f"aff{number}"
    here, there = (f"10.203.{number // 250}.{number % 250 + 1}", f"10.204.{number // 250}.{number % 250 + 1}")
    steps: Sequence[Sequence[str]] = (
        ("netns", "add", name),
        ("link", "add", near, "type", "veth", "peer", "name", far, "netns", name),
        ("addr", "add", here, "peer", there, "dev", near),
        ("link", "set", near, "up"),
        ("-n", name, "addr", "add", there, "peer", here, "dev", far),
        ("-n", name, "link", "set", far, "up"),
        ("-n", name, "link", "set", "lo", "up"),
    )
    try:
        made = all(_ip(*step) for step in steps)
        yield Host(("ip", "netns", "exec", name), here, there) if made else None
    finally:
        _ip("link", "del", near)
        _ip("netns", "del", name)


@cache
def hosts_allowed() -> bool:
    """Whether this machine can be several hosts."""
    with another_host() as host:
        return host is not None


def _ip(*words: str) -> bool:
    try:
        done = subprocess.run(["ip", *words], capture_output=True, timeout=_SECONDS, check=False)  # noqa: S603, S607
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
