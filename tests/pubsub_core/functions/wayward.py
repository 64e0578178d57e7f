"""Functions for rules, some of which misbehave."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import sys

CONTROLLED = frozenset({"morphine", "codeine"})


def is_controlled(drug: str) -> bool:
    return drug in CONTROLLED


def initials(name: str, mark: str = ".") -> str:
    return mark.join(word[0] for word in name.split()) + mark


def process_id(_: object) -> int:
    return os.getpid()


def loops(_: object) -> bool:
    while True:
        pass


def hoards(_: object) -> bool:
    kept = []
    while True:
        kept.append(bytearray(16 << 20))


def raises(_: object) -> bool:
    raise ValueError("what is this?")


def crashes(_: object) -> bool:
    return bool(ctypes.string_at(0))


def leaves(_: object) -> bool:
    os._exit(3)


def forks(_: object) -> bool:
    return os.fork() == 0


def shells(_: object) -> bool:
    return os.system("true") == 0


def connects(_: object) -> bool:
    return socket.create_connection(("127.0.0.1", 9)) is not None


def prints(text: str) -> bool:
    print(text)
    sys.stdout.flush()
    return True


def floods(_: object) -> str:
    return "x" * (2 << 20)


def talks(_: object) -> str:
    return "x" * 900_000


def garbles(_: object) -> bool:
    """Write to the broker what is no answer: a text that is none."""
    for descriptor in range(3, 20):
        with contextlib.suppress(OSError):
            os.write(descriptor, b"\0\0\0\x04\x92\xc3\xa1\xff")
    return True


def turns_away(_: object) -> bool:
    """Answer, and read no further question."""
    for descriptor in range(3, 20):
        with contextlib.suppress(OSError):
            os.write(descriptor, b"\0\0\0\x03\x92\xc3\xc3")
            break
    return loops(_)


def odd(_: object) -> object:
    return [1, 2]


def recursive(depth: int) -> bool:
    return recursive(depth + 1)
