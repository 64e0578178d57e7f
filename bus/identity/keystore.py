"""Keys in files: for their owner's eyes only, and encrypted unless told otherwise.

The format is PKCS#8 in PEM. Its own passphrase encryption is quick to guess against (2,048 rounds of PBKDF2), so
the passphrase is first made slow and costly by scrypt; the salt stands in a line above the key.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from collections.abc import Callable
from pathlib import Path

from authz import AuthFabricError, Identity, PublicKey
from authz.errors import InvalidKey

PASSPHRASE_VARIABLE = "AUTHFABRIC_PASSPHRASE"  # noqa: S105 - the variable's name
PASSPHRASE_FILE_VARIABLE = "AUTHFABRIC_PASSPHRASE_FILE"  # noqa: S105
_MAX_BYTES = 1024 * 1024
_SALT_BYTES = 16
_HEADING = b"authfabric-key: scrypt-32768-8-1 "
_N, _R, _P = 32_768, 8, 1
_MEMORY = 64 * 1024 * 1024
_ENCRYPTED = b"-----BEGIN ENCRYPTED PRIVATE KEY-----"


class KeyFileRefused(AuthFabricError):
    """A key file that is missing, in the way, or open to others: `problem` says what would be right."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"`{path}` {problem}")
        self.path = path
        self.problem = problem


def create_key(path: Path, identity: Identity, passphrase: str | None) -> None:
    """Write a key that only its owner can read; without a passphrase, unencrypted. Never overwrites."""
    write_private(path, lock(identity, passphrase))


def load_key(path: Path, passphrase: Callable[[], str]) -> Identity:
    """Read a key, asking for the passphrase only if it is encrypted.

    Raises KeyFileRefused if others could read the file too, InvalidKey if the passphrase does not fit.
    """
    if path.suffix == ".pub":
        raise KeyFileRefused(
            path, f"is for public keys: give the private one, such as `{path.with_suffix('.key')}`"
        )
    return unlock(path, read_private(path), passphrase)


def lock(identity: Identity, passphrase: str | None) -> bytes:
    """A private key as it stands in a file; without a passphrase, unencrypted."""
    if passphrase is None:
        return identity.to_pem()
    salt = secrets.token_bytes(_SALT_BYTES)
    return _HEADING + salt.hex().encode() + b"\n" + identity.to_pem(_stretch(passphrase, salt))


def is_locked(pem: bytes) -> bool:
    """Whether a private key, as it stands in a file, needs a passphrase."""
    return _ENCRYPTED in pem


def unlock(path: Path, pem: bytes, passphrase: Callable[[], str]) -> Identity:
    """The key that stands in a file. Raises InvalidKey if the passphrase does not fit."""
    if not is_locked(pem):
        return Identity.from_pem(pem)
    heading, _, body = pem.partition(b"\n")
    if not heading.startswith(_HEADING):  # another tool encrypted it
        return Identity.from_pem(pem, passphrase().encode())
    salt = _salt(path, heading)
    return Identity.from_pem(body, _stretch(passphrase(), salt))


def write_private(path: Path, content: bytes, *, replace: bool = False) -> None:
    """Write a file that only its owner can read: a new one, or whole in place of the one that is there."""
    target = path.with_name(f".{path.name}.{secrets.token_hex(4)}") if replace else path
    try:
        with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            target.replace(path)
    except FileExistsError:
        raise KeyFileRefused(target, "already exists: a key is never overwritten") from None
    except OSError as error:
        if replace:
            target.unlink(missing_ok=True)
        raise KeyFileRefused(path, f"cannot be written: {error.strerror}") from error


def configured_passphrase() -> str | None:
    """The passphrase that the environment has, or that stands in the file it names. Raises KeyFileRefused."""
    file = os.environ.get(PASSPHRASE_FILE_VARIABLE)
    if file:
        return read_private(Path(file)).decode(errors="replace").strip()
    return os.environ.get(PASSPHRASE_VARIABLE) or None


def load_public_key(text_or_path: str) -> PublicKey:
    """A public key given as itself, or as the file that holds it. Raises InvalidKey, KeyFileRefused."""
    path = Path(text_or_path)
    try:
        is_file = path.is_file()
        text = read_trusted(path) if is_file else text_or_path
    except (OSError, ValueError) as error:
        raise KeyFileRefused(path, "must be a file with one public key in it") from error
    try:
        return PublicKey.parse(text.strip())
    except InvalidKey as error:
        if is_file:  # whose content, perhaps a private key, is not for the terminal
            raise KeyFileRefused(path, "must be a file with one public key in it") from None
        raise InvalidKey(f"{error}, or a file that holds one") from None


def read_private(path: Path) -> bytes:
    """Read a file that must be closed to everybody else. Raises KeyFileRefused."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise KeyFileRefused(
                    path, f"is open to others (mode {stat.S_IMODE(mode):04o}): run `chmod 600 {path}`"
                )
            return file.read(_MAX_BYTES)
    except OSError as error:
        raise KeyFileRefused(path, f"cannot be read: {error.strerror}") from error


def read_trusted(path: Path) -> str:
    """Read a file that says whom to trust: not everybody may write to it. Raises KeyFileRefused."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if os.name == "posix" and mode & stat.S_IWOTH:
                raise KeyFileRefused(
                    path,
                    f"may be written by everybody (mode {stat.S_IMODE(mode):04o}): run `chmod o-w {path}`",
                )
            return file.read(_MAX_BYTES).decode()
    except OSError as error:
        raise KeyFileRefused(path, f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise KeyFileRefused(path, "is not text") from None


def _salt(path: Path, heading: bytes) -> bytes:
    try:
        return bytes.fromhex(heading.removeprefix(_HEADING).decode())
    except ValueError:
        raise InvalidKey(f"`{path}` is damaged: its first line must hold a salt in hexadecimal") from None


def _stretch(passphrase: str, salt: bytes) -> bytes:
    stretched = hashlib.scrypt(passphrase.encode(), salt=salt, n=_N, r=_R, p=_P, maxmem=_MEMORY)
    return stretched.hex().encode()
