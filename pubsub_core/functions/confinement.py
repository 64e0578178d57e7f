"""Confines this process by means of Linux alone: what it may read, and what it may ask the kernel for at all.

Landlock leaves the files that are named, for reading. A seccomp filter leaves the system calls that computing needs:
none that starts or signals processes, opens connections, or changes files. Neither needs privileges, and neither can be
taken back. Imports nothing of the fabric, so that the process of functions starts quickly.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Iterable, Iterator, Sequence

_SYSCALLS = {
    "access": (21, None), "arch_prctl": (158, None), "brk": (12, 214), "clock_getres": (229, 114),
    "clock_gettime": (228, 113), "clock_nanosleep": (230, 115), "close": (3, 57), "dup": (32, 23),
    "exit": (60, 93), "exit_group": (231, 94), "faccessat": (269, 48), "faccessat2": (439, 439),
    "fstat": (5, 80), "futex": (202, 98), "getcpu": (309, 168), "getcwd": (79, 17), "getdents64": (217, 61),
    "getegid": (108, 177), "geteuid": (107, 175), "getgid": (104, 176), "getpid": (39, 172),
    "getrandom": (318, 278), "getrlimit": (97, 163), "getrusage": (98, 165), "gettid": (186, 178),
    "gettimeofday": (96, 169), "getuid": (102, 174), "lseek": (8, 62), "lstat": (6, None), "madvise": (28, 233),
    "membarrier": (324, 283), "mmap": (9, 222), "mprotect": (10, 226), "mremap": (25, 216), "munmap": (11, 215),
    "nanosleep": (35, 101), "newfstatat": (262, 79), "pread64": (17, 67), "read": (0, 63), "readlink": (89, None),
    "readlinkat": (267, 78), "readv": (19, 65), "restart_syscall": (219, 128), "rseq": (334, 293),
    "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139),
    "sched_getaffinity": (204, 123), "sched_yield": (24, 124), "set_robust_list": (273, 99),
    "set_tid_address": (218, 96), "sigaltstack": (131, 132), "stat": (4, None), "statx": (332, 291),
    "sysinfo": (99, 179), "time": (201, None), "times": (100, 153), "uname": (63, 160), "write": (1, 64),
    "writev": (20, 66),
}  # fmt: skip
"""What is left: the numbers of system calls on x86_64 and aarch64."""
_OPENAT, _FCNTL, _PRLIMIT = (257, 56), (72, 25), (302, 261)
"""What is left in part: to read, to look at one's own descriptors, to see one's own limits."""
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""The column of a machine in these tables, and the name by which the kernel gives it to filters."""
_CHANGES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_FCNTL_COMMANDS = (0, 1, 2, 3, 1030)
"""F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC."""

_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x80000000
_NUMBER, _MACHINE, _ARGUMENTS = 0, 4, 16
_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
_HANDLED = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
"""The uses of files that each version of Landlock knows, from that version on."""


class CannotConfine(Exception):
    """This system lacks what confines a process: what."""


def confine(paths: Iterable[str]) -> None:
    """Leave these paths for reading, and what computing needs. Raises CannotConfine, and then nothing is promised."""
    if platform.system() != "Linux" or platform.machine() not in _MACHINES:
        raise CannotConfine(f"{platform.system()} on {platform.machine()} has no means that are known here")
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_void_p] * 4]
    libc.syscall.argtypes = [ctypes.c_long, *[ctypes.c_void_p] * 4]
    _done(libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "no_new_privs")
    _limit_files(libc, paths)
    program = b"".join(_program(*_MACHINES[platform.machine()]))
    code = ctypes.create_string_buffer(program, len(program))
    described = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    _done(libc.prctl(_SECCOMP, _FILTER, described, 0, 0), "seccomp")


def _done(result: int, what: str) -> int:
    if result < 0:
        raise CannotConfine(f"the kernel offers no {what}: {os.strerror(ctypes.get_errno())}")
    return result


def _limit_files(libc: ctypes.CDLL, paths: Iterable[str]) -> None:
    version = _done(libc.syscall(_CREATE_RULESET, None, 0, 1, 0), "Landlock")
    handled = struct.pack("Q", max(bits for since, bits in _HANDLED.items() if since <= version))
    rules = _done(libc.syscall(_CREATE_RULESET, handled, len(handled), 0, 0), "Landlock")
    for path in paths:
        try:
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue  # there is nothing to read
        access = _READ_FILE | _READ_DIR if os.path.isdir(path) else _READ_FILE  # noqa: PTH112
        _done(libc.syscall(_ADD_RULE, rules, 1, struct.pack("=Qi", access, place), 0), "Landlock")
        os.close(place)
    _done(libc.syscall(_RESTRICT_SELF, rules, 0, 0, 0), "Landlock")
    os.close(rules)


def _program(column: int, machine: int) -> Iterator[bytes]:
    """The filter, instruction by instruction: what is not let through is refused with EPERM."""
    yield from (_step(_LOAD, _MACHINE), _step(_EQUAL, machine, 1), _step(_RETURN, _KILL))
    yield _step(_LOAD, _NUMBER)
    for numbers in _SYSCALLS.values():
        if (number := numbers[column]) is not None:
            yield from (_step(_EQUAL, number, 0, 1), _step(_RETURN, _ALLOW))
    yield from _in_part(_OPENAT[column], [_step(_LOAD, _argument(2)), _step(_ANY_BIT, _CHANGES, 1)])
    commands = [_step(_EQUAL, each, len(_FCNTL_COMMANDS) - at) for at, each in enumerate(_FCNTL_COMMANDS)]
    yield from _in_part(_FCNTL[column], [_step(_LOAD, _argument(1)), *commands, _step(_RETURN, _REFUSE)])
    none = [(_argument(0), 4), (_argument(2), 2), (_argument(2) + 4, 0)]
    own = [each for at, left in none for each in (_step(_LOAD, at), _step(_EQUAL, 0, 0, left + 1))]
    yield from _in_part(_PRLIMIT[column], own)
    yield _step(_RETURN, _REFUSE)


def _in_part(number: int, conditions: Sequence[bytes]) -> Iterator[bytes]:
    """Let a call through unless its conditions jump over the next instruction."""
    yield _step(_EQUAL, number, 0, len(conditions) + 2)
    yield from (*conditions, _step(_RETURN, _ALLOW), _step(_RETURN, _REFUSE))


def _argument(number: int) -> int:
    """Where the lower half of an argument stands; the upper half is four bytes on."""
    return _ARGUMENTS + 8 * number


def _step(code: int, value: int, if_so: int = 0, if_not: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_so, if_not, value)
