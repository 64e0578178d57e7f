"""The process in which a broker's functions run: `python -P -s -B function_worker.py MODULE BYTES confined|unconfined`.

It is confined before the module is loaded: its memory is bounded, it reads nothing but Python's libraries and the
module's own package, starts no processes, opens no connections and writes no files. Questions come on standard input
and answers go to standard output, each as its length in four bytes and a MessagePack array; what functions print goes
nowhere.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import inspect
import os
import resource
import runpy
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import BinaryIO, TypeAlias

import msgspec

MAX_MESSAGE = 1 << 20
MAX_FILES = 64
"""Maximum open files."""
CONFINED, UNCONFINED = "confined", "unconfined"
_PR_SET_PDEATHSIG = 1
_REFUSED = ("os.fork", "os.exec", "os.posix_spawn", "os.system", "os.spawn", "subprocess.", "socket.", "pty.")
_SHARED = (
    "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache", "/usr/share/zoneinfo",
    "/etc/localtime", "/dev/null", "/dev/urandom",
)  # fmt: skip
"""What Python and its libraries read besides their own folders."""
Function: TypeAlias = Callable[..., object]


class _Found:
    """Finds the top-level package of the functions where it was found before: its folder is not read again."""

    def __init__(self, spec: ModuleSpec) -> None:
        self._spec = spec

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return self._spec if name == self._spec.name else None


def main(module: str, memory: int, confine: Callable[[Iterator[str]], None] | None) -> None:
    """Serve a module's functions; without `confine` only by what Python and the limits of processes refuse."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    try:
        here, top = os.getcwd(), module.partition(".")[0]  # noqa: PTH109
        found = PathFinder.find_spec(top, [here]) or importlib.util.find_spec(top)
        if found is not None:
            sys.meta_path.insert(0, _Found(found))
        limit(memory)
        if confine is not None:
            confine(readable(found))
        else:
            sys.path.insert(0, here)  # as for `python -m`; nothing in it is imported before this
        functions = functions_of(module)
    except BaseException as error:  # whatever somebody else's module does when it is loaded
        send(answers, [False, f"{type(error).__name__}: {error}"[:500]])
        return
    send(answers, [True, sorted(functions)])
    while (question := receive(sys.stdin.buffer)) is not None:
        send(answers, answer(functions, question))


def readable(found: ModuleSpec | None) -> Iterator[str]:
    """The paths that a module may read: libraries, and the package it belongs to."""
    yield from _SHARED
    for folder in filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":")):
        yield from map(str, Path(folder).glob("*.so*"))  # not all that stands there
    installed = [Path(place, name) for place in (sys.prefix, sys.base_prefix) for name in ("lib", "lib64")]
    yield from (each for each in sys.path if any(Path(each).is_relative_to(place) for place in installed))
    yield str(Path(sys.base_prefix, "lib"))
    if found is not None:
        own = [found.origin, found.cached] if found.submodule_search_locations is None else []
        yield from filter(None, [*own, *(found.submodule_search_locations or ())])


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


def limit(memory: int) -> None:
    """Take away what can be taken away everywhere. It cannot be had back, but there are ways around some of it."""

    def refuse(event: str, arguments: object) -> None:
        if event.startswith(_REFUSED):
            raise PermissionError(f"{event} is refused to functions of rules")

    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    for kind in (resource.RLIMIT_CORE, resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE):
        resource.setrlimit(kind, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (MAX_FILES, MAX_FILES))
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
    means = runpy.run_path(
        str(Path(__file__).with_name("confinement.py"))
    )  # the packages above it are not loaded
    main(sys.argv[1], int(sys.argv[2]), means["confine"] if sys.argv[3] == CONFINED else None)
