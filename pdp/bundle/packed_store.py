"""Packed policies on disk: written by one process of a user, read by the others.

A file counts only if it belongs to this user and nobody else may write it: what stands in it decides, and has no
signature. It is data of one bundle, packed by this very code; whatever does not fit is made anew.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import stat
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from time import monotonic, sleep

import msgspec

from pdp.bundle.bundle_store import write_whole
from pdp.bundle.packed import PackedPolicies

LOCK_SECONDS = 120.0
"""Maximum seconds to wait for another process to pack the policies; after that each packs its own."""
MOST_KEPT = 3
"""Bundles kept packed for each domain: the one in force, the one that is prepared, and the one before."""
_LOOK_SECONDS = 0.05
_MAGIC = b"authfabric packed policies 1\n"
_decode = msgspec.msgpack.Decoder(PackedPolicies).decode


class PackedStore:
    """The packed bundles of one domain, beside a file that is given."""

    def __init__(self, beside: Path) -> None:
        self.beside = beside
        self.folder = beside.parent
        self._name = beside.name

    def path(self, bundle: str) -> Path:
        """Where the bundle with this hash is kept."""
        return self.folder / f"{self._name}.{bundle[:32]}.packed"

    def load(self, bundle: str) -> PackedPolicies | None:
        """The bundle with this hash, packed; None if there is none to be trusted."""
        try:
            descriptor = os.open(self.path(bundle), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            state = os.fstat(descriptor)
            others = stat.S_IWGRP | stat.S_IWOTH
            if not stat.S_ISREG(state.st_mode) or state.st_uid != os.geteuid() or state.st_mode & others:
                return None
            head = _head(bundle)
            if file.read(len(head)) != head:
                return None
            digest, body = file.read(32), file.read()
        if hashlib.sha256(body).digest() != digest:
            return None
        try:
            return _decode(body)
        except msgspec.DecodeError:
            return None

    def save(self, bundle: str, packed: PackedPolicies) -> None:
        """Keep a packed bundle. Raises OSError."""
        body = msgspec.msgpack.encode(packed)
        write_whole(self.path(bundle), _head(bundle) + hashlib.sha256(body).digest() + body)
        kept = sorted(self.folder.glob(f"{self._name}.*.packed"), key=lambda each: each.stat().st_mtime)
        for each in kept[:-MOST_KEPT]:
            each.unlink(missing_ok=True)

    @contextlib.contextmanager
    def packing(self) -> Iterator[None]:
        """Holds the lock of the folder: one process of this user packs at a time, and the next may find it done."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "packing.lock").open("wb") as file:
            until = monotonic() + LOCK_SECONDS
            while monotonic() < until:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    sleep(_LOOK_SECONDS)
            yield


def _head(bundle: str) -> bytes:
    return _MAGIC + bytes.fromhex(bundle) + _code()


@cache
def _code() -> bytes:
    """The hash of the code that packs and opens."""
    root = Path(__file__).parent.parent
    code = hashlib.sha256(sys.version.encode())
    for path in sorted(each for name in ("authz", "pdp") for each in (root / name).rglob("*")):
        if path.suffix in (".py", ".lark"):
            code.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return code.digest()
