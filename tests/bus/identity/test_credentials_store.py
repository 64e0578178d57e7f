"""Files of credentials: found where they are expected, and refused where others could read them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from time import time

import msgspec
import pytest
from msgspec import structs

from authz import Identity
from authz.spki import Capability, Validity, decode_chain, encode_chain, parse_authority, unparse_chain
from bus import NatsServer
from bus.identity.certificates import Lifetime, Subject, certify
from bus.identity.credentials import Credentials
from bus.identity.credentials_store import (
    VARIABLE,
    CredentialsFile,
    CredentialsRefused,
    default_file,
    find_credentials,
    keep_renewed,
    read_credentials,
    write_credentials,
)
from bus.identity.keystore import PASSPHRASE_VARIABLE, lock
from bus.nats.connector import connect

DOMAIN, HOLDER = Identity.generate(), Identity.generate()
URL = "tls://127.0.0.1:4222"


def file(passphrase: str | None = None, url: str = URL) -> CredentialsFile:
    lifetime = Lifetime(time(), 600)
    authority = certify(Subject("d", DOMAIN.public, below=0), DOMAIN, "d", lifetime)
    own = certify(Subject("c", HOLDER.public), DOMAIN, "d", lifetime)
    key = lock(HOLDER, passphrase).decode()
    return CredentialsFile(url, key, certificate=own, authorities=authority)


def test_what_was_written_is_read(tmp_path):
    path = tmp_path / "a"
    write_credentials(path, file())
    found = read_credentials(path)
    assert (found.url, found.credentials.identity.public) == (URL, HOLDER.public)
    assert found.credentials.tls is not None
    assert path.stat().st_mode & 0o777 == 0o600


def test_writing_replaces_the_file_that_is_there(tmp_path):
    for url in ("tls://a:1", "tls://b:2"):
        write_credentials(tmp_path / "a", file(url=url))
    assert read_credentials(tmp_path / "a").url == "tls://b:2"


def test_one_that_others_can_read_is_refused(tmp_path):
    path = tmp_path / "a"
    write_credentials(path, file())
    path.chmod(0o644)
    with pytest.raises(CredentialsRefused, match="chmod 600"):
        read_credentials(path)


@pytest.mark.parametrize("text", ["", "{}", '{"url": "x", "key": "y"}'])
def test_junk_is_refused(tmp_path, text):
    path = tmp_path / "a"
    path.touch(0o600)
    path.write_text(text)
    with pytest.raises(CredentialsRefused):
        read_credentials(path)


WATCHED = """
import sys
from pathlib import Path
from bus.identity.credentials_store import read_credentials

def look(event, arguments):
    if event == "shutil.rmtree":
        print(*(each.read_text() for each in Path(arguments[0]).rglob("*")))

sys.addaudithook(look)
print(read_credentials(Path(sys.argv[1])).credentials.identity.public)
"""
"""Shows what stands in each folder that is taken away again."""


def test_a_key_stands_in_no_file_unencrypted_not_even_for_a_moment(tmp_path):
    """A process that is killed at that moment would leave it there, and a disk may give back what was deleted."""
    write_credentials(tmp_path / "a", file("open sesame"))
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, tmp_path / "a"],
        env=os.environ | {PASSPHRASE_VARIABLE: "open sesame"},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=True,
    )
    assert str(HOLDER.public) in done.stdout
    assert "BEGIN ENCRYPTED PRIVATE KEY" in done.stdout
    assert "BEGIN PRIVATE KEY" not in done.stdout


def test_an_encrypted_key_needs_its_passphrase(tmp_path, monkeypatch):
    write_credentials(tmp_path / "a", file("secret"))
    monkeypatch.delenv(PASSPHRASE_VARIABLE, raising=False)
    with pytest.raises(CredentialsRefused, match=PASSPHRASE_VARIABLE):
        read_credentials(tmp_path / "a")
    monkeypatch.setenv(PASSPHRASE_VARIABLE, "wrong")
    with pytest.raises(CredentialsRefused, match="passphrase"):
        read_credentials(tmp_path / "a")
    monkeypatch.setenv(PASSPHRASE_VARIABLE, "secret")
    assert read_credentials(tmp_path / "a").credentials.identity.public == HOLDER.public


class TestKeepingWhatWasRenewed:
    def credentials(self, path, seconds: int) -> tuple[Credentials, str]:
        """The holder's, with a capability and a certificate that last so long; the file has some for 600 seconds."""
        grants, until = parse_authority("network: *\naction: connect"), Validity(0, int(time()) + seconds)
        chain = (Capability(DOMAIN.public, HOLDER.public, False, grants, until).sign(DOMAIN),)
        if not path.exists():
            write_credentials(path, structs.replace(file("secret"), capability=unparse_chain(chain)))
        own = certify(Subject("c", HOLDER.public), DOMAIN, "d", Lifetime(time(), seconds))
        return Credentials(HOLDER, encode_chain(chain), file=path), own

    def test_what_lasts_longer_is_kept_and_the_key_stays_encrypted(self, tmp_path):
        self.credentials(path := tmp_path / "a", 600)
        before = msgspec.json.decode(path.read_bytes(), type=CredentialsFile)
        renewed, own = self.credentials(path, 900)
        keep_renewed(renewed, own)
        after = msgspec.json.decode(path.read_bytes(), type=CredentialsFile)
        chain = unparse_chain(decode_chain(renewed.chain))
        assert after == structs.replace(before, capability=chain, certificate=own)
        assert path.stat().st_mode & 0o777 == 0o600
        assert list(tmp_path.iterdir()) == [path]

    def test_what_ends_earlier_is_not(self, tmp_path):
        self.credentials(path := tmp_path / "a", 600)
        before = path.read_bytes()
        keep_renewed(*self.credentials(path, 300))
        assert path.read_bytes() == before

    def test_a_file_for_another_key_stays_as_it_is(self, tmp_path):
        renewed, own = self.credentials(path := tmp_path / "a", 900)
        stranger = certify(Subject("x", DOMAIN.public), DOMAIN, "d", Lifetime(time(), 60))
        write_credentials(path, structs.replace(file(), certificate=stranger))
        before = path.read_bytes()
        keep_renewed(renewed, own)
        assert path.read_bytes() == before

    def test_a_file_that_is_gone_stays_gone(self, tmp_path):
        renewed, own = self.credentials(path := tmp_path / "a", 900)
        path.unlink()
        with pytest.raises(CredentialsRefused, match="cannot be read"):
            keep_renewed(renewed, own)
        assert list(tmp_path.iterdir()) == []


class TestFinding:
    def test_there_may_be_none(self):
        assert find_credentials() is None

    def test_those_that_up_left_are_for_its_server_only(self):
        default_file().parent.mkdir(parents=True)
        write_credentials(default_file(), file())
        assert find_credentials() is not None
        assert find_credentials("nats://127.0.0.1:4222") is not None
        assert find_credentials("nats://elsewhere:4222") is None

    def test_those_that_the_environment_names_are_for_any_that_encrypts_its_links(
        self, tmp_path, monkeypatch
    ):
        write_credentials(tmp_path / "a", file())
        monkeypatch.setenv(VARIABLE, str(tmp_path / "a"))
        assert find_credentials("tls://elsewhere:4222") is not None
        assert find_credentials("nats://127.0.0.1:4222") is not None

    @pytest.mark.parametrize("other", ["", "tls://elsewhere:4222,"])
    async def test_whoever_has_credentials_for_other_servers_does_not_connect_in_clear(
        self, tmp_path, monkeypatch, other
    ):
        write_credentials(tmp_path / "a", file())
        monkeypatch.setenv(VARIABLE, str(tmp_path / "a"))
        async with NatsServer() as server:
            with pytest.raises(CredentialsRefused, match=f"they are for `{URL}`, and not for") as raised:
                async with connect(f"{other}{server.url}", name="victim"):
                    pass
        assert f"unset {VARIABLE}" in str(raised.value)

    def test_one_that_is_named_and_missing_is_an_error(self, tmp_path, monkeypatch):
        monkeypatch.setenv(VARIABLE, str(tmp_path / "a"))
        with pytest.raises(CredentialsRefused, match="cannot be read"):
            find_credentials()
