"""Functions that try what functions may not do, past whatever Python itself refuses; also while they are loaded."""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from pathlib import Path

__all__ = ["attempt"]

_C = ctypes.CDLL(None, use_errno=True)
_SECRET = "secret.key"
_UNLIMITED = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)


def _checked(result: int) -> str:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return f"done: {result}"


def _forked() -> str:
    process = _C.fork()
    if process == 0:
        os._exit(0)
    return _checked(process)


def _inherited() -> str:
    """What stands in some file that whoever started this process had open."""
    for number in range(3, 60):
        try:
            return os.pread(number, 100, 0).decode()
        except OSError:
            continue
    raise PermissionError


def _socket() -> str:
    return _checked(_C.socket(2, 1, 0))


_C.getenv.restype = ctypes.c_char_p
_ATTEMPTS = {
    "environment": lambda: os.environ["AUTHFABRIC_PASSPHRASE"],
    "environment-of-libc": lambda: _C.getenv(b"AUTHFABRIC_PASSPHRASE").decode(),
    "own-environment": lambda: Path("/proc/self/environ").read_text(),
    "parents-environment": lambda: Path(f"/proc/{os.getppid()}/environ").read_text(),
    "read": lambda: Path(_SECRET).read_text(),
    "read-of-the-system": lambda: Path("/etc/passwd").read_text(),
    "list": lambda: " ".join(map(str, Path().iterdir())),
    "inherited": _inherited,
    "delete": lambda: _checked(_C.unlink(_SECRET.encode())),
    "rename": lambda: _checked(_C.rename(_SECRET.encode(), b"other")),
    "truncate": lambda: _checked(_C.truncate(_SECRET.encode(), 0)),
    "truncate-by-opening": lambda: _checked(os.open(_SECRET, os.O_RDONLY | os.O_TRUNC)),
    "change-mode": lambda: _checked(_C.chmod(_SECRET.encode(), 0o644)),
    "make": lambda: _checked(_C.mkdir(b"folder", 0o700)),
    "make-file": lambda: _checked(_C.open(b"file", os.O_CREAT | os.O_WRONLY, 0o600)),
    "socket": _socket,
    "local-socket": lambda: _checked(_C.socketpair(1, 1, 0, (ctypes.c_int * 2)())),
    "fork": _forked,
    "execute": lambda: _checked(_C.execv(b"/bin/true", (ctypes.c_char_p * 2)(b"true", None))),
    "signal": lambda: _checked(_C.kill(os.getppid(), 0)),
    "trace": lambda: _checked(_C.process_vm_readv(os.getppid(), None, 0, None, 0, 0)),
    "raise-limits": lambda: str(resource.setrlimit(resource.RLIMIT_AS, _UNLIMITED)),
}


def _tried(name: str) -> str:
    """What came of an attempt."""
    try:
        return _ATTEMPTS[name]()
    except (OSError, KeyError, AttributeError, ValueError) as error:
        return f"refused: {type(error).__name__}"


_AS_IT_WAS_LOADED = (
    {} if "pytest" in sys.modules else {each: _tried(each) for each in _ATTEMPTS if each != "execute"}
)


def attempt(words: str) -> str:
    """`loaded NAME` for what came of it as this module was loaded, or `NAME`."""
    name = words.removeprefix("loaded ")
    return _AS_IT_WAS_LOADED[name] if name != words else _tried(name)
