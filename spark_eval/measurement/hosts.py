"""Other hosts: machines reached over SSH, or network namespaces on this one, each behind a virtual link."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from spark_eval.experiment import Hosts

NAMESPACES = 2
"""How many hosts this machine is made into where the plan names none."""
_SECONDS = 10.0
_SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10")


@dataclass(frozen=True, slots=True)
class Host:
    """Where PDPs run: what to put before a command to run it there, and the addresses of both ends of the link."""

    prefix: tuple[str, ...] = ()
    here: str = "127.0.0.1"
    there: str = "127.0.0.1"
    python: str = ""
    """The interpreter there; empty if it is this one."""

    def command(self, code: str) -> list[str]:
        """How to run a piece of Python there, with this process's standard input and output."""
        if not self.python:
            return [*self.prefix, sys.executable, "-c", code]
        return [*self.prefix, shlex.join([self.python, "-c", code])]  # a shell reads it there


HERE = Host()


def remote_hosts(named: Hosts | None) -> list[Host]:
    """The hosts that the plan names, reached over SSH."""
    if named is None:
        return []
    return [
        Host((*_SSH, *each.options, "--", each.ssh), named.here, each.address, each.python)
        for each in named.remote
    ]


@contextlib.contextmanager
def other_hosts(named: Hosts | None) -> Iterator[list[Host]]:
    """The hosts that the plan names, or namespaces for the length of a block; none where those cannot be made."""
    if named is not None:
        yield remote_hosts(named)
        return
    number = os.getpid() % 30_000
    names = [f"{number}-{place}" for place in range(NAMESPACES)]
    here = f"10.203.{number // 250}.{number % 250 + 1}"
    try:
        made = [_namespace(name, here, f"10.{204 + place}{here[6:]}") for place, name in enumerate(names)]
        yield [host for host in made if host is not None]
    finally:
        for name in names:
            _ip("link", "del", f"afn{name}")
            _ip("netns", "del", f"afx{name}")


@cache
def count_namespaces() -> int:
    """How many other hosts this machine can be."""
    with other_hosts(None) as hosts:
        return len(hosts)


def count_other_hosts(named: Hosts | None) -> int:
    return count_namespaces() if named is None else len(named.remote)


def _namespace(name: str, here: str, there: str) -> Host | None:
    """A namespace of its own, linked to this one."""
    space, near, far = f"afx{name}", f"afn{name}", f"aff{name}"
    steps: Sequence[Sequence[str]] = (
        ("netns", "add", space),
        ("link", "add", near, "type", "veth", "peer", "name", far, "netns", space),
        ("addr", "add", here, "peer", there, "dev", near),
        ("link", "set", near, "up"),
        ("-n", space, "addr", "add", there, "peer", here, "dev", far),
        ("-n", space, "link", "set", far, "up"),
        ("-n", space, "link", "set", "lo", "up"),
    )
    return Host(("ip", "netns", "exec", space), here, there) if all(_ip(*step) for step in steps) else None


def _ip(*words: str) -> bool:
    try:
        done = subprocess.run(["ip", *words], capture_output=True, timeout=_SECONDS, check=False)  # noqa: S603, S607
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
