"""Bundles: policy files packed so that equal files are equal bytes, named by their hash, and signed.

What a file means goes by its name:

| name | holds |
| --- | --- |
| `bundle.yaml` | the manifest |
| `*.oasis` | role rules |
| `*.rules` | rules of interaction control |
| `labels.yaml`, `*.labels.yaml` | a label policy |
| `entities.yaml`, `*.entities.yaml` | known subjects, objects and actions |
| `cases.yaml`, `*.cases.yaml`, all below `tests/` | test cases, which are not packed |
| any other `*.json`, `*.yaml` or `*.yml` | attribute policies |

Wherever `.yaml` stands, `.yml` and `.json` will do.
"""

from __future__ import annotations

import enum
import hashlib
import zlib
from collections.abc import Collection, Iterable
from pathlib import PurePosixPath
from typing import Self

import msgspec

from authz import AuthFabricError, Identity, PublicKey
from authz.crypto import Opened, Seal
from authz.errors import UNREADABLE

MAX_BYTES = 64 * 1024 * 1024
"""Maximum bytes of a bundle, unpacked."""
MAGIC = b"authfabric bundle 1\n"

_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_SEAL = Seal("bundle", bytes)


class BundleRefused(AuthFabricError):
    """Bytes that are no bundle, or not the one they should be: `problem` says why."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"the bundle is refused: {problem}")
        self.problem = problem


class FileKind(enum.Enum):
    """What is in a file."""

    MANIFEST = "manifest"
    ABAC = "attribute policies"
    ROLES = "role rules"
    RULES = "rules of interaction control"
    LABELS = "label policy"
    ENTITIES = "entities"
    CASES = "test cases"

    @classmethod
    def of(cls, path: str) -> FileKind | None:
        """By the file's path, relative to the folder; None if it is not part of a bundle."""
        pure = PurePosixPath(path)
        if any(part.startswith(".") for part in pure.parts):
            return None
        if by_suffix := _SUFFIXES.get(pure.suffix):
            return by_suffix
        if pure.suffix not in (".json", ".yaml", ".yml"):
            return None
        if pure.parts[0] == "tests":
            return cls.CASES
        if path.rpartition(".")[0] == "bundle":
            return cls.MANIFEST
        return _KINDS.get(pure.stem.rpartition(".")[2], cls.ABAC)


_SUFFIXES = {".oasis": FileKind.ROLES, ".rules": FileKind.RULES}
_KINDS = {"labels": FileKind.LABELS, "entities": FileKind.ENTITIES, "cases": FileKind.CASES}


class File(msgspec.Struct, frozen=True, array_like=True):
    path: str
    text: str

    @property
    def kind(self) -> FileKind | None:
        return FileKind.of(self.path)


class Bundle(msgspec.Struct, frozen=True, array_like=True):
    """Policy files by path, in the order of their paths."""

    files: tuple[File, ...] = ()

    @classmethod
    def of(cls, files: Iterable[File]) -> Self:
        """The files that belong into a bundle, of those given."""
        return cls(
            tuple(
                sorted(
                    (each for each in files if each.kind not in (None, FileKind.CASES)),
                    key=lambda each: each.path,
                )
            )
        )

    @property
    def hash(self) -> str:
        """What names the bundle: equal for two exactly if their files are."""
        return hashlib.sha256(_encode(self)).hexdigest()

    def pack(self) -> bytes:
        content = _encode(self)
        if len(content) > MAX_BYTES:
            raise BundleRefused(f"it has {len(content)} bytes; at most {MAX_BYTES} are allowed")
        return zlib.compress(content, 9)

    @classmethod
    def unpack(cls, packed: bytes, expected: str | None = None) -> Self:
        """The bundle in these bytes. Raises BundleRefused, also if its hash is not the one expected."""
        try:
            inflate = zlib.decompressobj()
            content = inflate.decompress(packed, MAX_BYTES)
            bundle = msgspec.msgpack.decode(content, type=cls)
        except (zlib.error, *UNREADABLE):
            raise BundleRefused("its bytes are no bundle") from None
        if not inflate.eof or inflate.unused_data or content != _encode(bundle):
            raise BundleRefused("its bytes are no bundle in the standard form")
        if expected is not None and bundle.hash != expected:
            raise BundleRefused(f"its hash is {bundle.hash[:16]}, not {expected[:16]}")
        return bundle

    def sign(self, identity: Identity) -> bytes:
        """The bundle as a file that can be carried about."""
        return MAGIC + _SEAL.sign(self.pack(), identity)

    @classmethod
    def open(cls, data: bytes, trusted: Collection[PublicKey]) -> Opened[Bundle]:
        """The bundle in such a file. Raises BundleRefused, UntrustedSigner or InvalidSignature."""
        if not data.startswith(MAGIC):
            raise BundleRefused("the file is no bundle: make one with `authfabric policy build`")
        packed, signer = _SEAL.open(data[len(MAGIC) :], trusted)
        return Opened(cls.unpack(packed), signer)
