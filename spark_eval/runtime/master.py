"""Whether the cluster asked for can be reached at all: Spark itself would try for minutes, and not say where."""

from __future__ import annotations

import re
import socket

from spark_eval.errors import SessionFailed

REACH_SECONDS = 3.0
_DEFAULT_PORTS = {"spark": 7077, "sc": 15002}
_ADDRESSES = re.compile(r"(spark|sc)://([^/;]+)")


def addresses(master: str) -> list[tuple[str, int]]:
    """Where a standalone master or a Spark Connect server is said to be; nothing for other kinds of master."""
    found = _ADDRESSES.match(master)
    if found is None:
        return []
    several = (each.rpartition("@")[2].rpartition(":") for each in found[2].split(","))
    return [
        (host or port, int(port) if host and port.isdigit() else _DEFAULT_PORTS[found[1]])
        for host, _, port in several
    ]


def check_reachable(master: str) -> None:
    """Raise SessionFailed, with the addresses, if nothing listens where the master should be."""
    problems = []
    for host, port in addresses(master):
        try:
            with socket.create_connection((host, port), REACH_SECONDS):
                return
        except OSError as error:
            problems.append(f"nothing answers at {host}:{port} ({error.strerror or error})")
    if problems:
        raise SessionFailed(master, "; ".join(problems))
