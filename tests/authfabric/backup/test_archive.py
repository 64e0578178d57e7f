"""An archive opens for those it was made for, whole and unaltered, or not at all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from authfabric.backup import (
    Archive,
    ArchiveWriter,
    BackupRefused,
    Manifest,
    Opener,
    recipient_of,
    restore_files,
)
from authfabric.backup.archive import MAGIC, Place, _part, _read_header
from authz import Identity

WITHOUT_DATABASES = """
import sys
sys.modules["sqlalchemy"] = None
import asyncio
from pathlib import Path
from authfabric.commands.trust import backup  # the command itself loads without them
from authfabric.backup import ArchiveWriter, Wanted, make_backup
from authz import Identity
from pubsub_core.history import HistoryUnavailable
folder = Path(sys.argv[1])
for histories in {}, {"orders": "sqlite://"}:
    with ArchiveWriter(folder / f"backup-{len(histories)}", "correct horse") as archive:
        try:
            asyncio.run(make_backup(archive, Wanted("shop", (), histories), Identity.generate(), None))
            print("made")
        except HistoryUnavailable as error:
            print(error)
"""
SIGNER = Identity.generate()
SECRET = "correct horse"


def write(path: Path, secret: str = SECRET, recipients=(), entries=None) -> Path:
    with ArchiveWriter(path, secret, recipients) as archive:
        for name, parts in (
            entries or {"files/a/x": [b"one", b"two"], "files/a/y": [], "files/z": [b"3" * 3_000_000]}
        ).items():
            with archive.entry(name, b"about") as entry:
                for part in parts:
                    entry.write(part)
        archive.close(Manifest(1.0, "1", "shop", {}, archive.entries), SIGNER)
    return path


def opener(secret: str = SECRET, key: Identity | None = None) -> Opener:
    return Opener(lambda: secret, key)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    return write(tmp_path_factory.mktemp("archive") / "backup")


def test_what_was_written_is_read_and_restored_as_it_was(made, tmp_path):
    archive = Archive.verify(made, opener())
    assert archive.signer == SIGNER.public
    assert archive.manifest.entries["files/z"].size == 3_000_000
    assert restore_files(archive, tmp_path / "new") == 3
    assert (tmp_path / "new/a/x").read_bytes() == b"onetwo"
    assert (tmp_path / "new/a/y").read_bytes() == b""
    assert (tmp_path / "new/z").read_bytes() == b"3" * 3_000_000
    assert (tmp_path / "new/z").stat().st_mode & 0o077 == 0
    with pytest.raises(BackupRefused, match="not empty"):
        restore_files(archive, tmp_path / "new")


@pytest.mark.parametrize("at", [0, 30, 200, 1_500_000, -1])
def test_an_archive_with_one_bit_changed_is_refused(made, tmp_path, at):
    data = bytearray(made.read_bytes())
    data[at] ^= 1
    (tmp_path / "altered").write_bytes(data)
    with pytest.raises(BackupRefused):
        Archive.verify(tmp_path / "altered", opener())


def test_an_archive_without_its_end_or_with_more_is_refused(made, tmp_path):
    data, cut = made.read_bytes(), tmp_path / "cut"
    for content in (data[:-1], data[: len(data) // 2], data + b"\0", b"", data[:25]):
        cut.write_bytes(content)
        with pytest.raises(BackupRefused):
            Archive.verify(cut, opener())


def test_the_wrong_passphrase_opens_nothing(made):
    with pytest.raises(BackupRefused, match="passphrase does not fit"):
        Archive.verify(made, opener("another"))


def test_an_archive_to_a_recipient_opens_by_that_key_if_its_signer_is_named(tmp_path):
    key = Identity.generate()
    path = write(tmp_path / "backup", "", [recipient_of(key)])
    with pytest.raises(BackupRefused, match="may be anybody's"):
        Archive.verify(path, opener(key=key))
    with pytest.raises(BackupRefused, match="not among those named"):
        Archive.verify(path, opener(key=key), frozenset({key.public}))
    assert Archive.verify(path, opener(key=key), frozenset({SIGNER.public})).manifest.domain == "shop"
    with pytest.raises(BackupRefused, match="not encrypted to this key"):
        Archive.verify(path, opener(key=Identity.generate()))
    with pytest.raises(BackupRefused, match="name the key"):
        Archive.verify(path, opener())


def test_whoever_else_an_archive_is_encrypted_to_does_not_alter_it_for_those_with_the_passphrase(tmp_path):
    """They know the key that encrypts it, and sign what they have put in by a key of their own."""
    path = write(tmp_path / "backup", SECRET, [recipient_of(key := Identity.generate())])
    genuine = Archive.verify(path, opener(), frozenset({SIGNER.public}))
    stolen = Archive.verify(path, opener(key=key), frozenset({SIGNER.public})).key
    with path.open("rb") as file:
        _, bound = _read_header(path, file)
        header = path.read_bytes()[: file.tell()]
    with ArchiveWriter(tmp_path / "other", SECRET) as forged:
        forged._cipher, forged._bound = ChaCha20Poly1305(stolen), bound
        with forged.entry("files/trusted-keys") as entry:
            entry.write(str(key.public).encode())
        forged.close(Manifest(1.0, "1", "shop", {}, forged.entries), key)
    content = (tmp_path / "other").read_bytes()
    length = len(MAGIC) + 4 + int.from_bytes(content[len(MAGIC) : len(MAGIC) + 4], "big")
    path.write_bytes(header + content[length:])
    with pytest.raises(BackupRefused, match="may be anybody's"):
        Archive.verify(path, opener())
    with pytest.raises(BackupRefused, match="not among those named"):
        Archive.verify(path, opener(), frozenset({genuine.signer}))


def test_a_key_of_another_length_or_parts_nested_without_end_are_refused(tmp_path, monkeypatch):
    key = Identity.generate()
    monkeypatch.setattr("authfabric.backup.archive.secrets.token_bytes", lambda count: b"k" * 16)
    monkeypatch.setattr(
        "authfabric.backup.archive.ChaCha20Poly1305", lambda key: ChaCha20Poly1305(key.ljust(32))
    )
    path = write(tmp_path / "backup", "", [recipient_of(key)], {"files/a": [b"x"]})
    monkeypatch.undo()
    with pytest.raises(BackupRefused, match="has 16 bytes"):
        Archive.verify(path, opener(key=key), frozenset({SIGNER.public}))
    nested = b"\x93\xa1a\xc4\x01a" + b"\x91" * 3000 + b"\xc0"
    with pytest.raises(BackupRefused, match="cannot be read in frame 0"):
        _part(path, Place(0, 0), nested)


def test_no_file_is_restored_outside_of_the_folder(tmp_path):
    path = write(tmp_path / "backup", entries={"files/../outside": [b"x"]})
    with pytest.raises(BackupRefused, match="lies elsewhere"):
        restore_files(Archive.verify(path, opener()), tmp_path / "new")
    assert not (tmp_path / "outside").exists()


def test_a_backup_that_is_given_up_leaves_no_file_and_overwrites_none(tmp_path, made):
    with pytest.raises(ZeroDivisionError), ArchiveWriter(tmp_path / "backup", SECRET):
        raise ZeroDivisionError
    assert not list(tmp_path.iterdir())
    with pytest.raises(BackupRefused, match="never overwritten"):
        write(made)


def test_without_the_packages_of_databases_backups_are_made_and_only_a_history_says_what_to_install(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_DATABASES, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines()[0] == "made"
    assert "pip install 'authfabric[history]'" in ran.stdout.splitlines()[1]
