"""Domains from the command line, and on a real server."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import signal
import sys
from pathlib import Path
from time import time

import pytest
from typer.testing import CliRunner

from authfabric.cli import app
from authfabric.processes.local_domain import LocalDomain
from authz import Identity
from authz.spki import Notice
from bus import Connection, NatsServer, NotConnected
from bus.feeds.revocations import publish_notice
from bus.identity.certificates import certified_hosts
from bus.identity.credentials_store import read_credentials
from bus.identity.keystore import PASSPHRASE_FILE_VARIABLE, PASSPHRASE_VARIABLE
from pdp.access.domain_store import DomainFolder
from tests.authfabric.pushing import authfabric
from tests.waiting import eventually, printed_document

PAGE = Path(__file__).parents[2] / "docs/concepts/domains.md"


def run(*words: object) -> str:
    result = CliRunner().invoke(app, ["domain", *map(str, words)])
    assert result.exit_code == 0, result.stderr or result.exception
    return result.stdout


def refuse(code: int, *words: object) -> str:
    result = CliRunner().invoke(app, ["domain", *map(str, words)])
    assert result.exit_code == code, result.stdout
    return result.stderr


@pytest.fixture
def uk(tmp_path) -> Path:
    run("init", tmp_path / "uk", "--name", "uk", "--unencrypted")
    return tmp_path / "uk"


def test_the_page_about_domains(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(PASSPHRASE_VARIABLE, "a long one")
    scripts = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(), re.S | re.M)
    lines = "".join(scripts).replace("\\\n", "").splitlines()
    commands = [shlex.split(line, comments=True) for line in lines if line.startswith("authfabric domain ")]
    for _, _, *words in commands:
        run(*words)
    assert len(commands) == 11


@pytest.mark.parametrize(
    ("words", "url"),
    [
        ([], "tls://127.0.0.1:4222"),
        (["--host", "a.example", "--host", "fd00::7"], "tls://a.example:4222,tls://[fd00::7]:4222"),
        (["--host", "a.example", "--url", "tls://b.example:4333"], "tls://b.example:4333"),
    ],
)
def test_members_look_for_the_servers_where_the_domain_says_they_are(tmp_path, words, url):
    run("init", tmp_path / "d", "--name", "d", "--unencrypted", *words)
    run("grant", tmp_path / "d", "shop", "--as", "pep", "--out", tmp_path / "shop.json")
    assert read_credentials(tmp_path / "shop.json").url == url


def test_a_domain_is_never_overwritten(uk):
    assert "never overwritten" in refuse(3, "init", uk, "--name", "uk", "--unencrypted")


def test_where_there_is_no_domain_it_is_said_how_to_make_one(tmp_path):
    (tmp_path / "file").touch()
    for name in ("file", "missing"):
        assert "holds no domain: make one with" in refuse(3, "status", tmp_path / name)


def test_keys_are_closed_to_others_and_encrypted_with_what_a_file_says(tmp_path, monkeypatch):
    secret = tmp_path / "secret"
    secret.touch(0o600)
    secret.write_text("a long one\n")
    monkeypatch.setenv(PASSPHRASE_FILE_VARIABLE, str(secret))
    run("init", tmp_path / "d", "--name", "d")
    for name in ("domain.key", "service.key"):
        file = tmp_path / "d" / name
        assert b"ENCRYPTED" in file.read_bytes()
        assert file.stat().st_mode & 0o077 == 0
    run("grant", tmp_path / "d", "x", "--as", "pep", "--out", tmp_path / "x.json")
    secret.write_text("another")
    assert "passphrase" in refuse(
        2, "grant", tmp_path / "d", "y", "--as", "pep", "--out", tmp_path / "y.json"
    )


def test_certify_gives_servers_new_keys_for_the_same_hosts_or_others(tmp_path):
    run("init", uk := tmp_path / "uk", "--name", "uk", "--unencrypted", "--host", "a.example")
    files = [uk / "tls" / name for name in ("server.key", "server.pem", "link.key", "link.pem")]
    before, configuration = [each.read_bytes() for each in files], (uk / "nats.conf").read_bytes()
    assert "a.example" in run("certify", uk)
    assert not set(before) & {each.read_bytes() for each in files}
    assert (uk / "nats.conf").read_bytes() == configuration
    hosts = json.loads(run("certify", uk, "--host", "b.example", "--json"))["hosts"]
    assert hosts == ["127.0.0.1", "localhost", "b.example"]
    assert list(certified_hosts((uk / "tls/link.pem").read_text())) == hosts


def test_certify_needs_the_domains_own_key(uk):
    (uk / "domain.key").unlink()
    assert "domain.key" in refuse(3, "certify", uk)


def test_a_folder_of_before_there_were_authorities_for_servers_says_what_to_run(uk, tmp_path):
    for name in ("server-ca.pem", "link-ca.pem", "link.pem", "link.key"):
        (uk / "tls" / name).unlink()
    (uk / "nats.conf").write_text("listen: 4222")
    grant = ("grant", uk, "shop", "--as", "pep", "--out", tmp_path / "shop.json")
    assert f"`authfabric domain certify {uk}`" in refuse(3, *grant)
    assert "nats.conf.old" in run("certify", uk)
    assert (uk / "nats.conf.old").read_text() == "listen: 4222"
    assert "security.conf" in (uk / "nats.conf").read_text()
    run(*grant)


def test_status_names_members_and_forgets_none(uk, tmp_path):
    run("grant", uk, "shop", "--as", "pep", "--out", tmp_path / "shop.json")
    document = json.loads(run("status", uk, "--json"))
    assert list(document["members"]) == ["shop"]
    assert "shop" in run("status", uk)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["x"], "say what is granted"),
        (["x", "--as", "king"], "must be one of"),
        (["x", "network: a"], "line"),
        (["x", "--as", "pep", "--for", "long"], "must be like"),
    ],
)
def test_a_grant_that_cannot_be_meant_is_2(uk, words, problem):
    assert problem in refuse(2, "grant", uk, *words)


def test_a_join_request_that_was_tampered_with_is_refused(uk, tmp_path):
    run("init", tmp_path / "met", "--name", "met", "--unencrypted")
    run("join", tmp_path / "met", "--request", tmp_path / "r")
    data = bytearray((tmp_path / "r").read_bytes())
    data[10] ^= 1
    (tmp_path / "bad").write_bytes(data)
    assert "signature is not valid" in refuse(3, "admit", uk, tmp_path / "bad", "--out", tmp_path / "m")


def test_a_membership_of_another_domain_cannot_be_used(uk, tmp_path):
    for name in ("met", "other"):
        run("init", tmp_path / name, "--name", name, "--unencrypted")
    run("join", tmp_path / "met", "--request", tmp_path / "r")
    run("admit", uk, tmp_path / "r", "--out", tmp_path / "m")
    assert "pass on" in refuse(3, "join", tmp_path / "other", tmp_path / "m")
    run("join", tmp_path / "met", tmp_path / "m")
    assert json.loads(run("status", tmp_path / "met", "--json"))["networks"] == ["uk"]
    assert json.loads(run("status", uk, "--json"))["domains"] == ["met"]


async def test_members_of_a_domain_below_connect_by_the_word_of_both_and_fall_with_it(uk, tmp_path):
    met = tmp_path / "met"
    local = LocalDomain.find(uk)
    async with NatsServer(jetstream=True, extra=local.configuration()) as server:
        local = local.at_url(server.url)
        run("init", met, "--name", "met", "--unencrypted")
        run("join", met, "--request", tmp_path / "r", "--want", "network: uk", "--want", "action: connect")
        run("admit", uk, tmp_path / "r", "--out", tmp_path / "m")
        run("join", met, tmp_path / "m")
        grants = ["network: *", "action: *"]
        run("grant", met, "cam", *grants, "--in", "uk", "--out", tmp_path / "cam.json")
        run("grant", met, "own", *grants, "--out", tmp_path / "own.json")
        async with local.serving() as access:
            found = read_credentials(tmp_path / "cam.json")
            assert found.url == server.url
            async with Connection(found.url, credentials=found.credentials) as cam:
                allowed = access._recent[-1][2].permissions.publish
                assert "af.ask.*.uk.>" in allowed
                assert not [each for each in allowed if each.startswith("_R_")]  # it was not given to met
                above = DomainFolder.open(met).holdings[1][0]
                owner = local.folder.domain(lambda: "").owner
                await publish_notice(access.member, Notice.event(owner, above, int(time())))
                await eventually(lambda: not cam.ready)
            stranger = read_credentials(tmp_path / "own.json")
            with pytest.raises(NotConnected):
                async with Connection(server.url, credentials=stranger.credentials):
                    pass


def test_what_a_domain_is_granted_later_reaches_its_brokers_by_the_certificate_they_have(uk, tmp_path):
    met = tmp_path / "met"
    run("init", met, "--name", "met", "--unencrypted")
    folder = DomainFolder.open(met)
    control = folder.control()
    assert len(control.holdings) == 1
    run("join", met, "--request", tmp_path / "r")
    run("admit", uk, tmp_path / "r", "--out", tmp_path / "m")
    run("join", met, tmp_path / "m")
    folder.refresh(control)
    assert [len(chain) for chain in control.holdings] == [1, 2]


async def test_serve_decides_until_it_is_told_to_end_and_revoke_puts_out(uk, tmp_path):
    local = LocalDomain.find(uk)
    async with NatsServer(jetstream=True, extra=local.configuration()) as server:
        local.at_url(server.url)
        run("grant", uk, "shop", "--as", "pep", "--out", tmp_path / "shop.json")
        serving = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "authfabric", "domain", "serve", str(uk), "--json",
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        await printed_document(serving)
        found = read_credentials(tmp_path / "shop.json")
        async with Connection(found.url, credentials=found.credentials) as shop:
            await asyncio.to_thread(run, "revoke", uk, "shop")
            await eventually(lambda: not shop.ready)
        serving.send_signal(signal.SIGTERM)
        _, said = await serving.communicate()
        assert b"1 let in" in said
        assert serving.returncode == 0
    assert json.loads(run("status", uk, "--json"))["members"] == {}


def test_roles_need_their_rules(uk):
    assert "go together" in refuse(2, "serve", uk, "--roles", "x")


async def test_doctor_says_that_the_certificate_of_the_servers_ends_soon(uk, tmp_path, monkeypatch):
    local = LocalDomain.find(uk)
    monkeypatch.setattr("authfabric.commands.begin.doctor.PROBE_SECONDS", 0.2)  # nobody decides here
    for left, well in ((10, False), (300, True)):
        local.folder.servers.certify(local.domain, time() - (365 - left - 0.5) * 86_400)
        async with NatsServer(jetstream=True, extra=local.configuration()) as server:
            moved = local.at_url(server.url)
            moved.hand_out(tmp_path / "pep.json", "pep", "network: *\naction: connect")
            monkeypatch.setenv("AUTHFABRIC_CREDENTIALS", str(tmp_path / "pep.json"))
            async with moved.serving():
                _, document = await authfabric("doctor", "--probes", "1", "--url", server.url)
        (found,) = [each for each in document["findings"] if each["about"] == "server certificate"]
        assert (found["well"], found["found"]) == (well, f"ends in {left} days")
        assert ("domain certify" in found.get("do", "")) is not well


async def test_doctor_says_where_to_look_when_nobody_is_let_in_and_when_no_server_is_there(
    uk, tmp_path, monkeypatch
):
    local = LocalDomain.find(uk)

    async def advice() -> str:
        _, document = await authfabric("doctor", "--probes", "1")
        (found,) = [each for each in document["findings"] if each["about"] == "connection"]
        assert not found["well"]
        return str(found["do"])

    async with NatsServer(jetstream=True, extra=local.configuration()) as server:
        local.at_url(server.url).hand_out(tmp_path / "pep.json", "pep", "network: *\naction: connect")
        monkeypatch.setenv("AUTHFABRIC_CREDENTIALS", str(tmp_path / "pep.json"))
        assert "journalctl -u authfabric-domain" in await advice()  # no access control service runs
    assert "the servers that the credentials name" in await advice()


def test_whose_word_counts_is_changed_later(uk, tmp_path):
    first, second = (str(Identity.generate().public) for _ in range(2))
    (tmp_path / "keys").write_text(f"{second}\n")

    def trusted_by_a_new_member(name: str) -> set[str]:
        run("grant", uk, name, "--as", "pep", "--out", tmp_path / name)
        return set(map(str, read_credentials(tmp_path / name).credentials.trust))

    own = DomainFolder.open(uk).file.owner
    assert json.loads(run("trust", "add", uk, first, tmp_path / "keys", "--json"))["trust"] == sorted(
        (first, second)
    )
    assert trusted_by_a_new_member("a.json") == {own, first, second}
    assert "grant members anew" in run("trust", "remove", uk, first)
    assert trusted_by_a_new_member("b.json") == {own, second}
    assert json.loads(run("trust", "list", uk, "--json"))["trust"] == [second]
    assert "is not among those trusted" in refuse(2, "trust", "remove", uk, first)
    assert trusted_by_a_new_member("c.json") == {own, second}
