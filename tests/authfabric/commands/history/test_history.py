"""`authfabric history`, as people and scripts use it."""

from __future__ import annotations

import json
from time import time

import pytest
from sqlalchemy import create_engine, text
from typer.testing import CliRunner

from authfabric.cli import app
from authfabric.files.history import history_setting
from pubsub_core.events.event import Event, encode
from pubsub_core.history.at_rest import EventCipher
from pubsub_core.history.retention import Keeping, aside
from pubsub_core.history.storage.store import HistoryStore
from pubsub_core.types.event_type import AttributeType

runner = CliRunner()
OLD, NEW = "0" * 32, "1" * 32


def run(*arguments: object, code: int = 0) -> str:
    result = runner.invoke(app, ["history", *map(str, arguments), "--broker", "met"])
    assert result.exit_code == code, result.output
    return result.stderr if code > 1 else result.stdout


@pytest.fixture
def url(tmp_path, monkeypatch) -> str:
    """The history of a broker named met: ten events of one type a day ago, five of another now."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    setting = history_setting("default", None, None, "met")
    assert setting is not None
    with HistoryStore(setting.url, EventCipher(setting.secret), "met") as store:
        for type_, name, count, at in ((OLD, "nhs.Old", 10, time() - 86_400), (NEW, "nhs.New", 5, time())):
            store.keep(Keeping(type_, {OLD: AttributeType.INTEGER}, name=name))
            events = [Event(type_, type_, b"p", at + n, n, {OLD: n}) for n in range(count)]
            store.append((each, encode(each)) for each in events)
    return setting.url


def test_what_is_kept_is_shown(url):
    shown = {each["name"]: each["events"] for each in json.loads(run("stats", "--json"))["types"]}
    assert shown == {"nhs.Old": 10, "nhs.New": 5}
    text = run("stats")
    assert "nhs.Old" in text
    assert "ever" in text


def test_what_is_old_is_forgotten_and_the_rest_verifies(url):
    assert json.loads(run("prune", "--older-than", "12h", "--json")) == {
        "forgotten": {"nhs.Old": 10, "nhs.New": 0},
        "marks": 0,
    }
    assert "forgot 0 events" in run("prune", "--older-than", "12h", "--type", "nhs.New")
    assert json.loads(run("verify", "--json"))["holds"]
    assert "5 events" in run("verify")


def test_every_type_that_was_altered_is_named_and_the_others_are_verified(url):
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text(f"DELETE FROM events_{OLD} WHERE sequence = 4"))
    engine.dispose()
    found = json.loads(run("verify", "--json", code=1))
    assert (found["holds"], [bool(each["problem"]) for each in found["types"]]) == (False, [True, False])
    assert "damaged" in run("verify", code=1)
    assert "holds" in run("verify", "--type", NEW)


def test_what_is_wrong_is_said(url, tmp_path):
    assert "must be like 90s" in run("prune", "--older-than", "long", code=2)
    assert "nothing is kept of a type `x`" in run("verify", "--type", "x", code=2)
    assert "cannot be read" in run("stats", "--history-key", tmp_path / "none.key", code=3)
    assert "cannot be used" in run("stats", "--history", "sqlite:////proc/nowhere/x.db", code=3)
    assert "must be `default`, sqlite:///FILE" in run("stats", "--history", "nosql://x", code=3)


def test_a_database_without_its_key_is_not_opened_and_the_option_is_named(url, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "of somebody else"))
    assert "by `--history-key`" in run("stats", "--history", url, code=3)


def test_a_type_is_forgotten_with_what_rules_have_replaced_of_it(url):
    setting = history_setting("default", None, None, "met")
    with HistoryStore(setting.url, EventCipher(setting.secret), "met") as store:
        replaced = store.kept[OLD].aside
        store.keep(replaced)
        event = aside(Event(OLD, OLD, b"p", 1.0, 1, {}))
        store.append([(event, encode(event))])
    found = json.loads(run("prune", "--older-than", "12h", "--type", "nhs.Old", "--json"))
    assert found["forgotten"] == {"nhs.Old": 10, "nhs.Old (replaced)": 1}
