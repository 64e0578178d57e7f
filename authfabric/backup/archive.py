"""Archives: one encrypted file of named entries, with a signed manifest at its end.

A data key drawn for the archive encrypts it, frame by frame (ChaCha20-Poly1305); that key is encrypted under a
passphrase (scrypt) or to the keys of recipients (X25519). Each frame's nonce is its number and whether it is the
last, and each authenticates what stands before the first: so no frame is taken out, added, exchanged or cut off
unseen. Whoever can encrypt to a recipient can make an archive; who did make it is known by the signature of its
manifest.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, NamedTuple, Self

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from authz import AuthFabricError, Identity, PublicKey
from authz.crypto import AgreementKey, Seal
from authz.errors import UNREADABLE, InvalidKey, InvalidSignature

MAGIC = b"authfabric backup 1\n"
FRAME_BYTES = 1024 * 1024
"""Maximum content of a frame."""
_KEY_BYTES = 32
_NO_NONCE = bytes(12)
"""Each key that encrypts a data key encrypts that alone."""
_SCRYPT = {"n": 2**17, "r": 8, "p": 1, "maxmem": 256 * 1024 * 1024}
_MAX_HEADER = 64 * 1024


class BackupRefused(AuthFabricError):
    """An archive that cannot be read, or must not be used: `problem` says why."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"`{path}` {problem}")
        self.path = path
        self.problem = problem


class Wrapped(msgspec.Struct, frozen=True):
    """The data key, encrypted: under a passphrase with this salt, or to a recipient, by a pair drawn for that."""

    box: bytes
    salt: bytes = b""
    recipient: bytes = b""
    pair: bytes = b""


class _Header(msgspec.Struct, frozen=True):
    keys: tuple[Wrapped, ...]


class Part(msgspec.Struct, frozen=True, array_like=True):
    """A piece of an entry; those of one entry stand in their order."""

    entry: str
    data: bytes


class Entry(msgspec.Struct, frozen=True):
    """What an archive has under a name."""

    sha256: str
    size: int
    about: bytes = b""
    """What is needed to put it back, such as the configuration of a stream."""


class ReleaseTold(msgspec.Struct, frozen=True):
    """The newest release of a domain, when the archive was made."""

    epoch: int
    hash: str


class Manifest(msgspec.Struct, frozen=True):
    """What an archive holds."""

    at: float
    """Unix time."""
    version: str
    domain: str
    releases: dict[str, ReleaseTold]
    entries: dict[str, Entry]


MANIFEST: Seal[Manifest] = Seal("backup", Manifest)


@dataclass(frozen=True, slots=True)
class Opener:
    """What opens an archive: a passphrase, asked for only if it is needed, or a recipient's key."""

    passphrase: Callable[[], str]
    key: Identity | None = None


def recipient_of(identity: Identity) -> str:
    """What archives are encrypted to, so that a key opens them."""
    return AgreementKey.of(identity).public.hex()


@dataclass
class ArchiveWriter:
    """Writes an archive: entries one after the other, then its manifest. Until `close` there is no file."""

    path: Path
    passphrase: str = ""
    recipients: Sequence[str] = ()
    _file: IO[bytes] = field(init=False)
    _number: int = 0
    _entries: dict[str, Entry] = field(default_factory=dict)

    def __enter__(self) -> Self:
        key = secrets.token_bytes(_KEY_BYTES)
        header = msgspec.msgpack.encode(_Header(tuple(self._wrapped(key))))
        self._cipher, self._bound = ChaCha20Poly1305(key), hashlib.sha256(MAGIC + header).digest()
        if self.path.exists():
            raise BackupRefused(self.path, "exists already: an archive is never overwritten")
        try:
            descriptor = os.open(self._unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        except OSError as error:
            raise BackupRefused(self.path, f"cannot be written: {error.strerror}") from None
        self._file = os.fdopen(descriptor, "wb")
        self._file.write(MAGIC + len(header).to_bytes(4, "big") + header)
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._unfinished.unlink(missing_ok=True)

    def entry(self, name: str, about: bytes = b"") -> EntryWriter:
        """What writes one entry, for the length of a block."""
        return EntryWriter(self, name, about)

    def close(self, manifest: Manifest, identity: Identity) -> None:
        """Write the manifest, which is to hold `entries`, and let the file be there."""
        self._frame(MANIFEST.sign(manifest, identity), last=True)
        self._file.flush()
        os.fsync(self._file.fileno())
        self._unfinished.replace(self.path)

    @property
    def entries(self) -> dict[str, Entry]:
        return dict(self._entries)

    def add(self, part: Part) -> None:
        self._frame(msgspec.msgpack.encode(part), last=False)

    def done(self, name: str, entry: Entry) -> None:
        self._entries[name] = entry

    @property
    def _unfinished(self) -> Path:
        return self.path.with_name(f".{self.path.name}.unfinished")

    def _frame(self, content: bytes, last: bool) -> None:
        box = self._cipher.encrypt(_nonce(self._number, last), content, self._bound)
        self._file.write((len(box) | last << 31).to_bytes(4, "big") + box)
        self._number += 1

    def _wrapped(self, key: bytes) -> Iterator[Wrapped]:
        if self.passphrase:
            salt = secrets.token_bytes(16)
            yield Wrapped(_box(_stretched(self.passphrase, salt)).encrypt(_NO_NONCE, key, None), salt)
        for text in self.recipients:
            try:
                recipient = bytes.fromhex(text)
                pair = AgreementKey.generate()
                secret = pair.shared(recipient)
            except (ValueError, InvalidKey):
                raise InvalidKey(f"`{text}` is no recipient: `authfabric backup key` prints one") from None
            agreed = _agreed(secret, pair.public, recipient)
            yield Wrapped(_box(agreed).encrypt(_NO_NONCE, key, None), b"", recipient, pair.public)


@dataclass
class EntryWriter:
    """Writes one entry, in frames."""

    archive: ArchiveWriter
    name: str
    about: bytes
    _hash: hashlib._Hash = field(default_factory=hashlib.sha256)
    _size: int = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.archive.done(self.name, Entry(self._hash.hexdigest(), self._size, self.about))

    def write(self, data: bytes) -> None:
        self._hash.update(data)
        self._size += len(data)
        for start in range(0, len(data), FRAME_BYTES):
            self.archive.add(Part(self.name, data[start : start + FRAME_BYTES]))


class Place(NamedTuple):
    """Where a frame stands."""

    number: int
    offset: int


@dataclass(frozen=True, slots=True)
class Archive:
    """An archive that was read to its end, and holds what its manifest says."""

    path: Path
    manifest: Manifest
    signer: PublicKey
    key: bytes = field(repr=False)
    starts: Mapping[str, Place]
    """Where each entry begins."""

    @classmethod
    def verify(cls, path: Path, opener: Opener, signers: frozenset[PublicKey] = frozenset()) -> Archive:
        """Read all of it. Raises BackupRefused if anything is missing or altered, or somebody else signed it.

        Who signed it must be known of an archive that anybody could have made: one that a recipient's key opens.
        """
        with _opened(path) as file:
            header, _ = _read_header(path, file)
        key, anybody = _unwrap(path, header, opener)
        if anybody and not signers:
            raise BackupRefused(path, "may be anybody's: name who must have signed it by `--signer`")
        hashes: dict[str, tuple[hashlib._Hash, int]] = {}
        manifest = b""
        starts: dict[str, Place] = {}
        for place, content, last in _frames(path, key):
            if last:
                manifest = content
                break
            part = _part(path, place, content)
            starts.setdefault(part.entry, place)
            known, size = hashes.setdefault(part.entry, (hashlib.sha256(), 0))
            known.update(part.data)
            hashes[part.entry] = (known, size + len(part.data))
        try:
            told, signer = MANIFEST.read(manifest)
        except InvalidSignature:
            raise BackupRefused(path, "has a manifest whose signature does not hold") from None
        if signers and signer not in signers:
            raise BackupRefused(path, f"is signed by `{signer}`, which is not among those named")
        empty = (hashlib.sha256(), 0)
        for name, entry in told.entries.items():
            found, size = hashes.pop(name, empty)
            if size != entry.size or not hmac.compare_digest(found.hexdigest(), entry.sha256):
                raise BackupRefused(path, f"has `{name}`, which is not what its manifest says")
        if hashes:
            raise BackupRefused(path, f"has `{min(hashes)}`, of which its manifest says nothing")
        return cls(path, told, signer, key, starts)

    def parts(self, entry: str) -> Iterator[bytes]:
        """An entry, piece by piece."""
        if entry not in self.starts:  # it is empty
            return
        for place, content, last in _frames(self.path, self.key, self.starts[entry]):
            if last or (part := _part(self.path, place, content)).entry != entry:
                return
            yield part.data


def _frames(path: Path, key: bytes, start: Place | None = None) -> Iterator[tuple[Place, bytes, bool]]:
    """Where each frame stands, what it holds, and whether it is the last. Raises BackupRefused if there is no last."""
    cipher = ChaCha20Poly1305(key)
    with _opened(path) as file:
        _, bound = _read_header(path, file)
        number = 0
        if start is not None:
            number = start.number
            file.seek(start.offset)
        while True:
            place = Place(number, file.tell())
            head = file.read(4)
            if len(head) < 4:
                raise BackupRefused(path, "is cut off: its end is missing")
            size, last = int.from_bytes(head, "big") & 0x7FFFFFFF, bool(head[0] & 0x80)
            if size > 2 * FRAME_BYTES and not last:
                raise BackupRefused(path, f"is altered in frame {number}")
            try:
                content = cipher.decrypt(_nonce(number, last), file.read(size), bound)
            except InvalidTag:
                raise BackupRefused(path, f"is altered or cut off in frame {number}") from None
            if last and file.read(1):
                raise BackupRefused(path, "goes on after its end")
            yield place, content, last
            if last:
                return
            number += 1


def _part(path: Path, place: Place, content: bytes) -> Part:
    try:
        return msgspec.msgpack.decode(content, type=Part)
    except UNREADABLE as error:
        raise BackupRefused(path, f"cannot be read in frame {place.number}: {error}") from None


def _read_header(path: Path, file: IO[bytes]) -> tuple[_Header, bytes]:
    if file.read(len(MAGIC)) != MAGIC:
        raise BackupRefused(path, "is no backup of this version: `authfabric backup create` writes them")
    content = file.read(min(int.from_bytes(file.read(4), "big"), _MAX_HEADER))
    try:
        return msgspec.msgpack.decode(content, type=_Header), hashlib.sha256(MAGIC + content).digest()
    except UNREADABLE as error:
        raise BackupRefused(path, f"has a head that cannot be read: {error}") from None


def _unwrap(path: Path, header: _Header, opener: Opener) -> tuple[bytes, bool]:
    """The data key, and whether others could have made the archive: whoever it is encrypted to knows that key too."""
    if opener.key is not None:
        own = AgreementKey.of(opener.key)
        for each in header.keys:
            if each.recipient == own.public:
                agreed = _agreed(own.shared(each.pair), each.pair, own.public)
                return _decrypted(path, agreed, each, "the key does not open it"), True
        raise BackupRefused(path, "is not encrypted to this key")
    for each in header.keys:
        if each.salt:
            stretched = _stretched(opener.passphrase(), each.salt)
            others = any(other.recipient for other in header.keys)
            return _decrypted(path, stretched, each, "the passphrase does not fit"), others
    raise BackupRefused(path, "is encrypted to recipients: name the key that opens it by `--key`")


def _decrypted(path: Path, key: bytes, wrapped: Wrapped, problem: str) -> bytes:
    try:
        found = _box(key).decrypt(_NO_NONCE, wrapped.box, None)
    except InvalidTag:
        raise BackupRefused(path, f"cannot be opened: {problem}") from None
    if len(found) != _KEY_BYTES:
        raise BackupRefused(
            path, f"cannot be opened: what encrypts it has {len(found)} bytes, not {_KEY_BYTES}"
        )
    return found


def _opened(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except OSError as error:
        raise BackupRefused(path, f"cannot be read: {error.strerror}") from None


def _box(key: bytes) -> ChaCha20Poly1305:
    return ChaCha20Poly1305(key)


def _stretched(passphrase: str, salt: bytes) -> bytes:
    return hashlib.scrypt(passphrase.encode(), salt=salt, dklen=_KEY_BYTES, **_SCRYPT)


def _agreed(secret: bytes, pair: bytes, recipient: bytes) -> bytes:
    info = b"authfabric backup 1\0" + pair + recipient
    return HKDF(SHA256(), _KEY_BYTES, salt=None, info=info).derive(secret)


def _nonce(number: int, last: bool) -> bytes:
    return number.to_bytes(11, "big") + bytes([last])
