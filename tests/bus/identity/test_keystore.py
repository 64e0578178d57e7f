"""Key files: for their owner only, never overwritten, and no use without the passphrase."""

from __future__ import annotations

import os

import pytest

from authz import Identity
from authz.errors import InvalidKey
from bus.identity.keystore import KeyFileRefused, create_key, load_key, load_public_key

KEY = Identity.from_seed(bytes(32))


def unasked() -> str:
    raise AssertionError("no passphrase should be asked for")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "met.key"


def test_a_key_comes_back_with_its_passphrase(path):
    create_key(path, KEY, "correct horse")
    assert load_key(path, lambda: "correct horse").public == KEY.public


def test_a_key_does_not_come_back_with_another(path):
    create_key(path, KEY, "correct horse")
    with pytest.raises(InvalidKey, match="wrong passphrase"):
        load_key(path, lambda: "battery staple")


def test_the_passphrase_alone_does_not_open_the_pem_inside(path):
    create_key(path, KEY, "correct horse")
    with pytest.raises(InvalidKey):
        Identity.from_pem(path.read_bytes().partition(b"\n")[2], b"correct horse")


def test_an_unencrypted_key_needs_no_passphrase(path):
    create_key(path, KEY, None)
    assert load_key(path, unasked).public == KEY.public


def test_a_key_that_another_tool_encrypted_is_read(path):
    path.write_bytes(KEY.to_pem(b"correct horse"))
    path.chmod(0o600)
    assert load_key(path, lambda: "correct horse").public == KEY.public


def test_a_new_key_is_for_its_owner_only_whatever_the_umask(path):
    before = os.umask(0)
    try:
        create_key(path, KEY, None)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o601])
def test_a_key_open_to_others_is_refused(path, mode):
    create_key(path, KEY, None)
    path.chmod(mode)
    with pytest.raises(KeyFileRefused, match=f"mode {mode:04o}.*chmod 600"):
        load_key(path, unasked)


def test_a_key_is_never_overwritten(path):
    create_key(path, KEY, None)
    with pytest.raises(KeyFileRefused, match="already exists"):
        create_key(path, Identity.generate(), None)
    assert load_key(path, unasked).public == KEY.public


def test_a_missing_or_damaged_key_is_reported(path):
    with pytest.raises(KeyFileRefused, match="cannot be read: No such file"):
        load_key(path, unasked)
    create_key(path, KEY, "correct horse")
    path.write_bytes(path.read_bytes().replace(b"8-1 ", b"8-1 zz", 1))
    with pytest.raises(InvalidKey, match="damaged"):
        load_key(path, unasked)


def test_a_key_cannot_be_written_where_there_is_no_folder(path):
    with pytest.raises(KeyFileRefused, match="cannot be written"):
        create_key(path.parent / "nowhere" / "met.key", KEY, None)


def test_a_public_key_is_given_as_itself_or_in_a_file(tmp_path):
    file = tmp_path / "met.pub"
    file.write_text(f"{KEY.public}\n")
    assert load_public_key(str(KEY.public)) == load_public_key(str(file)) == KEY.public
    with pytest.raises(InvalidKey, match=r"`PITO` is not a public key: .*, or a file that holds one"):
        load_public_key("PITO")


def test_a_private_key_in_place_of_a_public_one_is_not_shown(path):
    create_key(path, KEY, None)
    with pytest.raises(KeyFileRefused) as refused:
        load_public_key(str(path))
    assert str(refused.value) == f"`{path}` must be a file with one public key in it"


def test_a_public_key_in_place_of_a_private_one_is_refused_with_what_would_be_right(tmp_path):
    file = tmp_path / "met.pub"
    file.write_text(f"{KEY.public}\n")
    with pytest.raises(KeyFileRefused, match=r"is for public keys: .*met\.key"):
        load_key(file, unasked)


def test_a_public_key_that_everybody_may_write_to_is_refused(tmp_path):
    path, key = tmp_path / "owner.pub", Identity.generate().public
    path.write_text(f"{key}\n")
    path.chmod(0o664)
    assert load_public_key(str(path)) == key
    path.chmod(0o666)
    with pytest.raises(KeyFileRefused, match="may be written by everybody"):
        load_public_key(str(path))
