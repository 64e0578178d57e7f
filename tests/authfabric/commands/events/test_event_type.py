"""`authfabric type`, with files, as people and scripts use it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from uuid import uuid4

import pytest
from typer.testing import CliRunner

from authfabric.cli import app
from authfabric.terminal.passphrase import VARIABLE
from bus import Connection
from pubsub_core.stores import TypeStore
from pubsub_core.types import Catalogue, OwnerPolicies, OwnerPolicy

EVERYTHING = "{uid: all, effect: allow, targets: {}, rules: {}}"

runner = CliRunner()


def run(*arguments: object, code: int = 0) -> str:
    result = runner.invoke(app, [str(each) for each in arguments])
    assert result.exit_code == code, result.output
    return result.stderr if code else result.stdout


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> None:
    """PITO's type, signed; and the Met, which may add attributes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(VARIABLE, raising=False)
    for name in ("pito", "met"):
        run("cap", "keygen", name, "--unencrypted")
    run(
        "cap",
        "issue",
        "--key",
        "pito.key",
        "--to",
        "met.pub",
        "--out",
        "met.cap",
        "type: uk.*",
        "action: addAttribute",
    )
    run(
        "type",
        "new",
        "uk.Plate",
        "number:string",
        "speed:float",
        "--owner",
        "pito.pub",
        "--out",
        "draft.json",
    )
    run("type", "sign", "draft.json", "--key", "pito.key", "--out", "one.type")


def edit(*words: str, code: int = 0) -> str:
    return run(
        "type",
        "edit",
        "one.type",
        "--key",
        "met.key",
        "--chain",
        "met.cap",
        "--out",
        "two.type",
        *words,
        code=code,
    )


def test_a_delegate_adds_an_attribute_and_the_result_verifies():
    edit("--add", "lane:integer")
    assert "2 sound" in run("type", "verify", "one.type", "two.type")
    shown = json.loads(run("type", "show", "two.type", "--json"))
    assert [each["name"] for each in shown["attributes"]] == ["number", "speed", "lane"]


def test_an_edit_without_its_right_is_refused_by_name():
    assert "`removeAttribute` of the attribute `speed` is not granted" in edit("--remove", "speed", code=1)
    assert not Path("two.type").exists()


def test_an_altered_file_does_not_verify():
    text = Path("one.type").read_text()
    Path("forged.type").write_text(text.replace('"speed"', '"velocity"'))
    assert "signature" in run("type", "verify", "forged.type", code=1)


def test_only_the_owner_signs_a_draft():
    assert "only its owner" in run(
        "type", "sign", "draft.json", "--key", "met.key", "--out", "x.type", code=1
    )


def test_what_cannot_be_meant_is_refused_with_what_would_be_right():
    assert "NAME:TYPE" in run("type", "new", "a.B", "x:colour", "--owner", "pito.pub", "--out", "x", code=2)
    assert "is not one of its own" in edit("--remove", "colour", code=2)
    assert "changes nothing" in edit(code=2)
    assert "is not a signed type" in run("type", "verify", "draft.json", code=3)


def test_a_published_type_is_in_the_store(jetstream_server):
    said = run("type", "publish", "one.type", "--url", jetstream_server.url, "--json")
    assert json.loads(said)["published"] == [
        json.loads(Path("one.type").read_text())["definition"]["version"]
    ]


def test_the_owner_of_a_type_says_who_may_use_it(jetstream_server):
    url = ("--url", jetstream_server.url)
    run("type", "publish", "one.type", *url)
    Path("said").mkdir()
    Path("said/plate.rules").write_text("all: ALLOW SUBSCRIPTION TO uk.Plate\n")
    said = run("type", "policy", "one.type", "said", "--key", "pito.key", *url)
    assert said == "the owner of uk.Plate says 1 file about it\n"
    assert json.loads(run("type", "policy", "one.type", "--key", "pito.key", *url, "--json"))["files"] == []
    assert "only its owner" in run("type", "policy", "one.type", "said", "--key", "met.key", *url, code=1)
    Path("said/plate.rules").write_text("all: ALLOW SUBSCRIPTION\n")
    assert "plate.rules:1" in run("type", "policy", "one.type", "said", "--key", "pito.key", *url, code=3)


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        (
            {
                "bundle.yaml": "attributes: {subject: {role: string}}",
                "p.yaml": "{uid: p, effect: allow, targets: {subject_id: eve},"
                " rules: {subject: {$.rloe: {condition: NotExists}}}}",
            },
            "did you mean `role`?",
        ),
        (
            {
                "p.yaml": "{uid: p, effect: allow, targets: {subject_id: eve}, rules: {}}",
                "cases.yaml": "- {subject: eve, object: /x, action: read, expect: deny}",
            },
            "1 of 1 cases fail",
        ),
        ({"p.yaml": EVERYTHING}, "everything would be allowed to everyone, by `all`"),
        ({"p.yaml": "[]"}, "the files have no policy"),
    ],
)
def test_what_a_push_would_refuse_does_not_bind_a_type(jetstream_server, texts, problem):
    url = ("--url", jetstream_server.url)
    run("type", "publish", "one.type", *url)
    Path("said").mkdir()
    for name, text in texts.items():
        Path("said", name).write_text(text)
    assert problem in run("type", "policy", "one.type", "said", "--key", "pito.key", *url, code=3)
    assert owners_word(jetstream_server.url) is None


def test_everything_to_everyone_binds_a_type_for_a_reason_only_which_its_owner_signs(jetstream_server):
    url = ("--url", jetstream_server.url)
    run("type", "publish", "one.type", *url)
    Path("said").mkdir()
    Path("said/p.yaml").write_text(EVERYTHING)
    run("type", "policy", "one.type", "said", "--key", "pito.key", "--force", "open data", *url)
    said = owners_word(jetstream_server.url)
    assert said is not None
    assert said.forced == "open data"


def owners_word(url: str) -> OwnerPolicy | None:
    """What the store has of the type's owner."""
    catalogue = Catalogue()
    policies = OwnerPolicies(catalogue, lambda type_: None)

    async def look() -> None:
        async with Connection(url) as bus:
            await TypeStore(bus, catalogue, policies=policies).refresh()

    asyncio.run(look())
    policies.look_again()
    return policies.of(json.loads(Path("one.type").read_text())["definition"]["id"])


def test_the_list_says_whose_types_are_and_which_of_them_their_names_mean(jetstream_server):
    name, url = f"uk.T{uuid4().hex}", ("--url", jetstream_server.url)
    pito, met = (Path(f"{each}.pub").read_text().strip() for each in ("pito", "met"))
    for owner in ("met", "pito"):  # the stranger comes first
        run("type", "new", name, "number:string", "--owner", f"{owner}.pub", "--out", f"{owner}.json")
        run("type", "sign", f"{owner}.json", "--key", f"{owner}.key", "--out", f"{owner}.type")
        run("type", "publish", f"{owner}.type", *url)

    def listed(*words: str) -> dict[str, bool]:
        found = json.loads(run("type", "list", *words, *url, "--json"))
        return {each["owner"]: each["trusted"] for each in found if each["name"] == name}

    assert listed() == {pito: False, met: False}
    assert listed("--names", "uk=pito.pub") == {pito: True, met: False}
    assert listed("--names", "uk=pito.pub", "--names", f"{name}=met.pub") == {pito: False, met: True}
    assert listed("--trust", "pito.pub", "--trust", "met.pub") == {pito: False, met: False}
    assert met in run("type", "list", *url)
    assert "must be PREFIX=KEY" in run("type", "list", "--names", "uk", *url, code=2)


def test_a_capability_to_define_a_name_goes_with_the_definition(jetstream_server):
    name, url = f"uk.T{uuid4().hex}", ("--url", jetstream_server.url)
    issue = ("cap", "issue", "--key", "pito.key", "--to", "met.pub", "--out", "define.cap")
    run(*issue, "type: uk.*", "action: define")
    run("type", "new", name, "number:string", "--owner", "met.pub", "--out", "met.json")
    run("type", "sign", "met.json", "--key", "met.key", "--install", "define.cap", "--out", "met.type")
    run("type", "publish", "met.type", *url)
    found = json.loads(run("type", "list", "--names", "uk=pito.pub", *url, "--json"))
    assert [each["trusted"] for each in found if each["name"] == name] == [True]
