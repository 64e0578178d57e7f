"""The process in which a broker's functions run: `python -P function_worker.py MODULE BYTES`.

It may use so much memory, starts no processes, opens no connections and writes no files. Questions come on standard
input and answers go to standard output, each as its length in four bytes and a MessagePack array; what functions print
goes nowhere.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import inspect
import os
import resource
import signal
import sys
from collections.abc import Callable
from typing import BinaryIO, TypeAlias

import msgspec

MAX_MESSAGE = 1 << 20
_PR_SET_PDEATHSIG = 1
_REFUSED = ("os.fork", "os.exec", "os.posix_spawn", "os.system", "os.spawn", "subprocess.", "socket.", "pty.")
Function: TypeAlias = Callable[..., object]


def main(module: str, memory: int) -> None:
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        functions = functions_of(module)
    except BaseException as error:  # whatever somebody else's module does when it is loaded
        send(answers, [False, f"{type(error).__name__}: {error}"[:500]])
        return
    confine()
    send(answers, [True, sorted(functions)])
    while (question := receive(sys.stdin.buffer)) is not None:
        send(answers, answer(functions, question))


def functions_of(module: str) -> dict[str, Function]:
    """The functions that a module offers: those that `__all__` names, or else those defined in it."""
    loaded = importlib.import_module(module)
    offered = getattr(loaded, "__all__", None)
    return {
        name: value
        for name, value in vars(loaded).items()
        if inspect.isroutine(value)
        and (
            name in offered
            if offered is not None
            else value.__module__ == loaded.__name__ and not name.startswith("_")
        )
    }


def confine() -> None:
    """Take everything away that functions of values do not need. It cannot be had back."""

    def refuse(event: str, arguments: object) -> None:
        if event.startswith(_REFUSED):
            raise PermissionError(f"{event} is refused to functions of rules")

    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    sys.addaudithook(refuse)


def answer(functions: dict[str, Function], question: bytes) -> list[object]:
    """Whether it could be done, and the result, or else what is wrong."""
    name, arguments = msgspec.msgpack.decode(question)
    try:
        result = functions[name](*arguments)
        msgspec.msgpack.encode(result)
    except MemoryError:
        raise  # there is no telling what is left of this process
    except Exception as error:
        return [False, f"{type(error).__name__}: {error}"[:500]]
    return [True, result]


def send(to: BinaryIO, message: list[object]) -> None:
    data = msgspec.msgpack.encode(message)
    if len(data) > MAX_MESSAGE:
        data = msgspec.msgpack.encode([False, f"the result has {len(data)} bytes: too many"])
    to.write(len(data).to_bytes(4, "big") + data)
    to.flush()


def receive(of: BinaryIO) -> bytes | None:
    size = of.read(4)
    return of.read(int.from_bytes(size, "big")) if len(size) == 4 else None


if __name__ == "__main__":
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 - as for `python -m`
    main(sys.argv[1], int(sys.argv[2]))
