"""Functions that a broker was given: they run in a process of their own, with limits, and harm nobody.

A function is asked while an event waits, so it must be quick: one that takes longer than its time, or brings the
process down, is ended and not asked again for a while. Invariant: in that while, the broker waits for a function at
most once in vain. Functions give the same answer for the same arguments; what was answered is remembered.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic

import msgspec

from authz.errors import UNREADABLE
from pubsub_core.errors import EventError
from pubsub_core.functions import function_worker
from pubsub_core.functions.function_worker import CONFINED, MAX_MESSAGE, UNCONFINED
from pubsub_core.rules import Unknowable

_log = logging.getLogger("authfabric.rules")

START_SECONDS = 20.0
REMEMBERED = 4096
"""Maximum answers that are remembered."""
MAX_REMEMBERED_BYTES = 4096
"""Maximum bytes of a question and an answer that are remembered: all together take no more than 16 MB."""
ENVIRONMENT = {"LC_ALL": "C.UTF-8", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""All that functions find in their environment, but for what is passed on."""
PASSED_ON = ("LD_LIBRARY_PATH", "PYTHONHOME", "PYTHONPATH")
"""What some installations of Python need to start, and to find modules."""
_PYTHON = (sys.executable, "-P", "-s", "-B")
_UNABLE = "CannotConfine"
_RESULTS = (str, int, float, bool, bytes, dict, type(None))
_decode = msgspec.msgpack.Decoder(tuple[bool, object]).decode
_decode_names = msgspec.msgpack.Decoder(tuple[bool, list[str] | str]).decode


class FunctionsRefused(EventError):
    """A module of functions that cannot be used: `problem` says why."""

    def __init__(self, module: str, problem: str) -> None:
        super().__init__(f"the functions of `{module}` cannot be used: {problem}")
        self.module = module
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Limits:
    """What a function may use."""

    seconds: float = 0.1
    memory: int = 512 << 20
    """Bytes."""
    barred: float = 30.0
    """How many seconds a function that exceeded them is not asked again."""
    confined: bool = True
    """Whether the kernel is to confine them, and they are refused where it cannot."""


class _Ended(Exception):
    """The process gave no answer: why."""


class Functions:
    """The functions of a module: `with Functions("wards") as functions`."""

    def __init__(self, module: str, limits: Limits = Limits()) -> None:
        self._module = module
        self._limits = limits
        self._names: frozenset[str] = frozenset()
        self._process: subprocess.Popen[bytes] | None = None
        self._ready = False
        self._barred: dict[str, float] = {}
        self._known: OrderedDict[tuple[object, ...], object] = OrderedDict()

    def __enter__(self) -> Functions:
        """Raises FunctionsRefused."""
        if not self._limits.confined:
            _log.warning(
                "the functions of `%s` are NOT confined: they can do what this broker can",
                self._module,
            )
        self._start()
        try:
            well, found = _decode_names(self._read(monotonic() + START_SECONDS))
        except (_Ended, *UNREADABLE):
            self.close()
            raise FunctionsRefused(
                self._module, "the process did not start: does it need more memory?"
            ) from None
        if not well or isinstance(found, str):
            self.close()
            hint = "; `--functions-unconfined` runs them all the same" if _UNABLE in str(found) else ""
            raise FunctionsRefused(self._module, f"{found}{hint}")
        self._names, self._ready = frozenset(found), True
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __contains__(self, name: object) -> bool:
        return name in self._names

    @property
    def names(self) -> frozenset[str]:
        return self._names

    def call(self, name: str, arguments: Sequence[object]) -> object:
        """What a function makes of values. Raises Unknowable."""
        key = (name, *((type(each), each) for each in arguments if not isinstance(each, dict)))
        plain = not any(isinstance(each, dict) for each in arguments)
        if plain and key in self._known:
            self._known.move_to_end(key)
            return self._known[key]
        result, size = self._asked(name, arguments)
        if plain and size <= MAX_REMEMBERED_BYTES:
            self._known[key] = result
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return result

    def _asked(self, name: str, arguments: Sequence[object]) -> tuple[object, int]:
        """What a function makes of values now, and the bytes of both."""
        if self._barred.get(name, 0.0) > monotonic():
            raise Unknowable(name, "exceeded its limits, and is not asked for a while")
        self._make_ready(name)
        question = msgspec.msgpack.encode([name, list(arguments)])
        try:
            until = monotonic() + self._limits.seconds
            self._write(question, until)
            answer = self._read(until)
            well, result = _decode(answer)
        except UNREADABLE:
            raise self._bar(name, "gave what cannot be read") from None
        except _Ended as ended:
            raise self._bar(name, str(ended)) from None
        if not well:
            raise Unknowable(name, f"failed: {result!s}")
        if not isinstance(result, _RESULTS):
            raise Unknowable(name, f"gave a {type(result).__name__}, which no attribute can be")
        return result, len(question) + len(answer)

    def _make_ready(self, name: str) -> None:
        """See that a process that was started anew is there, without waiting for it."""
        if self._ready:
            return
        assert self._process is not None
        assert self._process.stdout is not None
        if self._process.poll() is not None:
            self._start()
        if not select.select([self._process.stdout], [], [], 0.0)[0]:
            raise Unknowable(name, "cannot be asked yet: its process is being started")
        try:
            self._ready = _decode_names(self._read(monotonic() + self._limits.seconds))[0]
        except (_Ended, *UNREADABLE):
            self._ready = False
        if not self._ready:
            self._end()
            self._start()
            raise Unknowable(name, "cannot be asked: its process does not start")

    def _bar(self, name: str, problem: str) -> Unknowable:
        """Ask a function no more for a while, and start its process anew; says why."""
        _log.warning("the function `%s` %s: it is not asked for %g s", name, problem, self._limits.barred)
        self._barred[name] = monotonic() + self._limits.barred
        self._end()
        self._start()
        return Unknowable(name, problem)

    def _start(self) -> None:
        self._ready = False
        means = CONFINED if self._limits.confined else UNCONFINED
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            [*_PYTHON, function_worker.__file__, self._module, str(self._limits.memory), means],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
            env=ENVIRONMENT | {name: os.environ[name] for name in PASSED_ON if name in os.environ},
        )
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdin.fileno(), False)

    def _write(self, question: bytes, until: float) -> None:
        """Ask, if it is read in time: a process that reads nothing holds nobody up."""
        assert self._process is not None
        assert self._process.stdin is not None
        target, data = self._process.stdin.fileno(), len(question).to_bytes(4, "big") + question
        while data:
            left = until - monotonic()
            if left <= 0 or not select.select([], [target], [], left)[1]:
                raise self._too_late()
            try:
                data = data[os.write(target, data) :]
            except BlockingIOError:
                continue
            except OSError:
                raise self._died() from None

    def _read(self, until: float) -> bytes:
        """The next message, if it comes in time."""
        assert self._process is not None
        assert self._process.stdout is not None
        source, data = self._process.stdout, b""
        while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
            left = until - monotonic()
            if left <= 0 or not select.select([source], [], [], left)[0]:
                raise self._too_late()
            chunk = os.read(source.fileno(), 65_536)
            if not chunk:
                raise self._died()
            data += chunk
            if len(data) >= 4 and int.from_bytes(data[:4], "big") > MAX_MESSAGE:
                raise _Ended(f"gave more than {MAX_MESSAGE:,} bytes")
        return data[4:]

    def _too_late(self) -> _Ended:
        return _Ended(f"took longer than {self._limits.seconds:g} s")

    def _died(self) -> _Ended:
        return _Ended(f"brought its process down, or needed more than {self._limits.memory >> 20:,} MB")

    def _end(self) -> None:
        """Kill the process and whatever it may have started."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        process.wait()

    def close(self) -> None:
        self._end()
