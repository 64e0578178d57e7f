"""`authfabric context`, as people and scripts use it."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest
from typer.testing import CliRunner

from authfabric.cli import app
from authfabric.terminal.passphrase import VARIABLE

runner = CliRunner()


def run(*arguments: object, code: int = 0) -> str:
    result = runner.invoke(app, [str(each) for each in arguments])
    assert result.exit_code == code, result.output
    return result.stderr if code else result.stdout


@pytest.fixture
def where(jetstream_server, tmp_path, monkeypatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(VARIABLE, raising=False)
    for name in ("owner", "thief"):
        run("cap", "keygen", name, "--unencrypted")
    return ["--url", jetstream_server.url, "--domain", uuid4().hex]


def test_rows_are_set_shown_and_listed(where, tmp_path):
    run("context", "set", "staff", "ann", "ward=C3", "level=2", "--key", "owner.key", *where)
    run("context", "set", "staff", "ann", "level=", "on_duty=true", "--key", "owner.key", *where)
    read = ("--trust", "owner.pub", "--json", *where)
    assert json.loads(run("context", "get", "staff", *read)) == {"ann": {"ward": "C3", "on_duty": True}}
    (tmp_path / "wards.csv").write_text("ward,floor,name\nC3,3,\nC4,4,Oak\n")
    run("context", "load", "wards", "wards.csv", "--key", "owner.key", *where)
    assert json.loads(run("context", "get", "wards", "C4", *read)) == {"C4": {"floor": 4, "name": "Oak"}}
    assert json.loads(run("context", "list", *read)) == {"staff": 1, "wards": 2}
    assert "Oak" in run("context", "get", "wards", "--trust", "owner.pub", *where)
    assert json.loads(run("context", "list", "--trust", "thief.pub", "--json", *where)) == {}
    assert "no tables that are rightly signed" in run("context", "list", "--trust", "thief.pub", *where)


def test_a_table_is_shown_by_its_rows_and_one_without_any_is_said_to_have_none(where, tmp_path):
    (tmp_path / "wards.csv").write_text("ward,floor,name\nC3,3,\nC4,4,Oak\n")
    run("context", "load", "wards", "wards.csv", "--key", "owner.key", *where)
    read = ("--trust", "owner.pub", *where)
    assert run("context", "get", "wards", *read) == "row  floor  name\nC3       3\nC4       4  Oak\n"
    (tmp_path / "wards.csv").write_text("ward,floor\n")
    run("context", "load", "wards", "wards.csv", "--key", "owner.key", *where)
    assert run("context", "get", "wards", *read) == "`wards` has no rows\n"


def test_a_row_or_a_whole_table_is_removed(where):
    own, read = ("--key", "owner.key", *where), ("--trust", "owner.pub", "--json", *where)
    for name in ("ann", "bob"):
        run("context", "set", "staff", name, "ward=C3", *own)
    assert run("context", "remove", "staff", "ann", *own) == "`staff` has 1 row\n"
    assert json.loads(run("context", "get", "staff", *read)) == {"bob": {"ward": "C3"}}
    assert "has no row `ann`" in run("context", "remove", "staff", "ann", *own, code=3)
    assert run("context", "remove", "staff", *own) == "`staff` is removed\n"
    assert json.loads(run("context", "list", *read)) == {}
    assert "is not there" in run("context", "remove", "staff", *own, code=3)
    run("context", "set", "staff", "ann", "ward=C4", *own)
    assert json.loads(run("context", "list", *read)) == {"staff": 1}


def test_what_is_wrong_is_said(where, tmp_path):
    assert "write `ward=value`" in run(
        "context", "set", "t", "r", "ward", "--key", "owner.key", *where, code=2
    )
    (tmp_path / "bad.csv").write_text("ward,floor\nC3\n")
    assert "in line 2" in run("context", "load", "t", "bad.csv", "--key", "owner.key", *where, code=2)
    assert "no table `t`" in run("context", "get", "t", "--trust", "owner.pub", *where, code=1)


def test_the_table_of_another_is_not_lost_when_a_row_is_set(where, tmp_path):
    run("context", "set", "staff", "ann", "ward=C3", "--key", "owner.key", *where)
    by_thief = ("context", "set", "staff", "bob", "ward=C4", "--key", "thief.key", *where)
    assert "name who signed it by `--trust`" in run(*by_thief, code=3)
    run(*by_thief, "--trust", "owner.pub")
    read = ("--trust", "thief.pub", "--json", *where)
    assert json.loads(run("context", "get", "staff", *read)) == {"ann": {"ward": "C3"}, "bob": {"ward": "C4"}}
    (tmp_path / "staff.csv").write_text("name,ward\nann,C5\n")
    run("context", "load", "staff", "staff.csv", "--key", "owner.key", *where)
    read = ("--trust", "owner.pub", "--json", *where)
    assert json.loads(run("context", "get", "staff", *read)) == {"ann": {"ward": "C5"}}


def test_whoever_releases_policies_here_signs_and_trusts_by_default(where, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    run("context", "set", "staff", "ann", "ward=C3", *where)
    assert json.loads(run("context", "list", "--json", *where)) == {"staff": 1}
