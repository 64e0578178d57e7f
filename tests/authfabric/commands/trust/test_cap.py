"""`authfabric cap`, with files, as people and scripts use it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from authfabric.commands.trust.cap import app
from authfabric.terminal.passphrase import VARIABLE
from authz.spki import parse_chain
from authz.spki.text import parse_notice

runner = CliRunner()
PUBLISH = [
    "type: uk.gov.pito.Numberplate",
    "action: publish",
    'attributes: location = "Victoria", numberplate',
]


def run(*arguments: object, code: int = 0, **options) -> str:
    """What a command prints; its error, if it is to end with another code than 0."""
    result = runner.invoke(app, [str(each) for each in arguments], **options)
    assert result.exit_code == code, result.output
    return result.stderr if code else result.stdout


def load(text: str):
    return json.loads(text)


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """PITO, owner of its types; the Met, to whom it granted them; a camera, to whom the Met passed some on."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(VARIABLE, raising=False)
    for name in ("pito", "met", "camera", "thief"):
        run("keygen", name, "--unencrypted")
    owner = Path("pito.pub").read_text()
    Path("owners.txt").write_text(f"owner: {owner}type: uk.gov.pito.*\n")
    run(
        "issue",
        "--key",
        "pito.key",
        "--to",
        "met.pub",
        "--delegate",
        "--out",
        "met.cap",
        "type: uk.*",
        "action: *",
    )
    delegate(*PUBLISH, "--out", "camera.cap")
    return tmp_path


def delegate(*arguments: object, code: int = 0) -> str:
    return run(
        "delegate", "--chain", "met.cap", "--key", "met.key", "--to", "camera.pub", *arguments, code=code
    )


def test_a_key_is_made_for_its_owner_only(folder):
    assert (folder / "met.key").stat().st_mode & 0o777 == 0o600
    assert "already exists" in run("keygen", "met", "--unencrypted", code=3)


def test_a_key_is_encrypted_with_the_passphrase_of_the_environment(folder, monkeypatch):
    monkeypatch.setenv(VARIABLE, "correct horse")
    assert load(run("keygen", "safe", "--json"))["encrypted"] is True
    issue = ["issue", "--key", "safe.key", "--to", "met.pub", "type: a.*", "action: *"]
    assert parse_chain(run(*issue))[0].open()
    monkeypatch.setenv(VARIABLE, "battery staple")
    assert "wrong passphrase" in run(*issue, code=2)
    monkeypatch.delenv(VARIABLE)
    assert f"set {VARIABLE}" in run(*issue, code=3)


def test_without_a_passphrase_no_key_is_made_unless_told_so(folder):
    assert f"set {VARIABLE}" in run("keygen", "other", code=3)
    assert not (folder / "other.key").exists()


def test_a_key_open_to_others_is_not_used(folder):
    (folder / "pito.key").chmod(0o644)
    error = run("issue", "--key", "pito.key", "--to", "met.pub", "type: a.*", "action: *", code=3)
    assert "chmod 600 pito.key" in error


def test_a_sound_chain_is_verified_to_what_it_proves(folder):
    proved = load(run("verify", "camera.cap", "--owners", "owners.txt", "--json"))
    assert proved["sound"] is True
    (grant,) = proved["capability"]["grants"]
    assert grant["pattern"] == "uk.gov.pito.Numberplate"
    assert grant["where"] == ['event.location == "Victoria"']
    assert "action: publish" in run("verify", "camera.cap", "--owners", "owners.txt")


def test_a_right_that_a_chain_does_not_give_is_refused_with_the_link(folder):
    verify = ["verify", "camera.cap", "--owners", "owners.txt", "--may"]
    run(*verify, "publish", "uk.gov.pito.Numberplate")
    error = run(*verify, "subscribe", "uk.gov.pito.Numberplate", code=1)
    assert "link 2 of the chain does not pass on the right to subscribe" in error
    refused = runner.invoke(app, [*verify, "publish", "uk.Weather", "--json"])
    assert load(refused.stdout)["link"] == 1
    assert load(refused.stdout)["fault"] == "not-granted"


def test_only_the_holder_of_the_key_closes_the_loop(folder):
    verify = ["verify", "camera.cap", "--owners", "owners.txt", "--holder"]
    run(*verify, "camera.key")
    assert "and the holder is" in run(*verify, "thief.key", code=1)


def test_times_are_verified(folder):
    assert "link 1 of the chain is not valid before" in run(
        "verify", "camera.cap", "--owners", "owners.txt", "--at", "2000-01-01T00:00:00Z", code=1
    )
    assert "link 1 of the chain expired" in run(
        "verify", "camera.cap", "--owners", "owners.txt", "--at", "9000-01-01T00:00:00Z", code=1
    )
    assert "must be a time such as" in run(
        "verify", "camera.cap", "--owners", "owners.txt", "--at", "noon", code=2
    )


def test_an_altered_certificate_is_refused_with_its_link(folder):
    text = (folder / "camera.cap").read_text().replace("Victoria", "Vauxhall")
    (folder / "camera.cap").write_text(text)
    assert "link 2 of the chain is not good" in run("verify", "camera.cap", "--owners", "owners.txt", code=1)
    assert [each["signature"] for each in load(run("show", "camera.cap", "--json"))] == ["good", "not valid"]


def test_more_than_is_held_is_passed_on_only_as_a_blanket(folder):
    assert "say --blanket" in delegate("resource: *", "action: *", code=1)
    chain = parse_chain(delegate("resource: *", "action: *", "--blanket"))
    assert len(chain) == 2
    assert "grants nothing that its issuer" in delegate("network: city", "action: *", "--blanket", code=1)


def test_what_may_not_be_passed_on_is_not(folder):
    run("delegate", "--chain", "met.cap", "--key", "met.key", "--to", "thief.pub", "--out", "a.cap", *PUBLISH)
    error = run("delegate", "--chain", "a.cap", "--key", "thief.key", "--to", "camera.pub", *PUBLISH, code=1)
    assert "link 3 of the chain is issued by" in error
    assert "may not pass on what it holds" in error


def test_a_revoked_certificate_is_refused_from_then_on(folder):
    revoked = load(
        run("revoke", "camera.cap", "--key", "met.key", "--list", "met.list", "--event", "now.txt", "--json")
    )
    assert (revoked["number"], len(revoked["revoked"])) == (1, 1)
    for news in ("met.list", "now.txt"):
        verify = ["verify", "camera.cap", "--owners", "owners.txt", "--revoked", news]
        assert "link 2 of the chain was revoked by" in run(*verify, code=1)
    run("verify", "met.cap", "--owners", "owners.txt", "--revoked", "met.list")
    assert load(run("show", "met.list", "--json"))["signature"] == "good"
    assert "# signature: good" in run("show", "met.list")


def test_revocation_lists_are_renewed_and_only_by_their_key(folder):
    run("revoke", "camera.cap", "--key", "met.key", "--list", "met.list")
    run("revoke", "--key", "met.key", "--list", "met.list")
    notice = parse_notice((folder / "met.list").read_text())
    assert (notice.number, len(notice.revoked)) == (2, 1)
    assert "must be a revocation list of" in run("revoke", "--key", "pito.key", "--list", "met.list", code=3)
    assert "can revoke this" in run("revoke", "camera.cap", "--key", "pito.key", "--list", "x.list", code=2)


def test_a_recheck_asks_for_a_fresh_list(folder):
    delegate(*PUBLISH, "--recheck", "60", "--out", "checked.cap")
    verify = ["verify", "checked.cap", "--owners", "owners.txt"]
    assert "needs a revocation list" in run(*verify, code=1)
    run("revoke", "--key", "met.key", "--list", "met.list")
    run(*verify, "--revoked", "met.list")


def test_a_forged_list_is_not_heeded(folder):
    run("revoke", "camera.cap", "--key", "met.key", "--list", "met.list")
    text = (folder / "met.list").read_text().replace("number: 1", "number: 7")
    (folder / "met.list").write_text(text)
    verify = ["verify", "camera.cap", "--owners", "owners.txt", "--revoked", "met.list"]
    assert "the signature is not valid" in run(*verify, code=3)


def test_certificates_are_put_in_order_and_shown_link_by_link(folder):
    first, second = (folder / "camera.cap").read_text().split("---\n")
    (folder / "b.cap").write_text(second)
    (folder / "a.cap").write_text(first)
    table = run("chain", "b.cap", "a.cap", "--out", "joined.cap")
    assert table.count("sound") == 2
    assert (folder / "joined.cap").read_text() == (folder / "camera.cap").read_text()
    shown = load(run("chain", "b.cap", "a.cap", "--owners", "owners.txt", "--json"))
    assert shown["sound"] is True
    assert [link["signature"] for link in shown["links"]] == ["good", "good"]


def test_the_link_at_which_a_chain_fails_is_shown(folder):
    result = runner.invoke(app, ["chain", "camera.cap", "--at", "9000-01-01T00:00:00Z"])
    assert result.exit_code == 1
    assert "expired" in result.stdout
    assert "not reached" in result.stdout
    assert "link 1 of the chain expired" in result.stderr


def test_certificates_of_two_chains_are_not_joined(folder):
    run("issue", "--key", "thief.key", "--to", "camera.pub", "--out", "other.cap", *PUBLISH)
    assert "must have one beginning, and has 2" in run("chain", "camera.cap", "other.cap", code=1)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "either in lines or in a file"),
        (["--grants", "grants.txt", "type: a.*"], "either in lines or in a file"),
        (["type: a.*", "action: fly"], "line 2, column 9: `fly` must be"),
        (["--for", "soon", "type: a.*", "action: *"], "must be like 90s"),
        (["--from", "soon", "type: a.*", "action: *"], "must be a time such as"),
        (["--grants", "grants.txt"], "grants.txt:2:9: `fly` must be"),
    ],
)
def test_a_wrong_call_says_what_would_be_right(folder, arguments, problem):
    (folder / "grants.txt").write_text("type: a.*\naction: fly\n")
    assert problem in run("issue", "--key", "pito.key", "--to", "met.pub", *arguments, code=2)


def test_grants_are_read_from_files_and_standard_input(folder):
    (folder / "grants.txt").write_text("\n".join(PUBLISH))
    issue = ["issue", "--key", "pito.key", "--to", "met.pub", "--for", "ever", "--grants"]
    for source, text in (("grants.txt", None), ("-", "\n".join(PUBLISH))):
        (certificate,) = parse_chain(run(*issue, source, input=text))
        assert certificate.open().validity.end is None
    assert load(run(*issue, "grants.txt", "--json"))["text"].startswith("issuer: ")


def test_a_file_that_is_missing_or_no_text_is_reported(folder):
    assert "`none.cap` cannot be read" in run("show", "none.cap", code=3)
    (folder / "bytes.cap").write_bytes(b"\xff\xfe")
    assert "`bytes.cap` is not text" in run("show", "bytes.cap", code=3)
    assert "signed certificates must stand here" in run("show", "owners.txt", code=2)
