"""Where a history is, its key, and what is kept: as options and files say it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from authfabric.files.capabilities import FileRefused
from authfabric.files.history import NoHistory, NoSuchHistory, history_setting
from bus.identity.keystore import KeyFileRefused
from pubsub_core.history.retention import Search

WITHOUT = """
import sys
sys.modules["sqlalchemy"] = None
import asyncio
from pubsub_core.server.service import BrokerService
from pubsub_core.history.errors import HistoryUnavailable
from pubsub_core.history.retention import HistorySetting
try:
    asyncio.run(BrokerService._record(None, None, HistorySetting("sqlite://", b"")))
except HistoryUnavailable as error:
    print(error)
"""


@pytest.fixture(autouse=True)
def state(monkeypatch, tmp_path) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "authfabric" / "history"


def test_by_default_database_and_key_stand_below_the_state_folder_for_their_owner_alone(state):
    setting = history_setting("default", None, None, "met")
    assert setting is not None
    assert setting.url == f"sqlite:///{state / 'met.db'}"
    assert (state / "met.key").stat().st_mode & 0o777 == 0o600
    assert state.stat().st_mode & 0o777 == 0o700
    again = history_setting("default", None, None, "met")
    assert again is not None
    assert again.secret == setting.secret


def test_a_key_that_others_can_read_is_refused(state):
    history_setting("default", None, None, "met")
    (state / "met.key").chmod(0o644)
    with pytest.raises(KeyFileRefused, match="open to others"):
        history_setting("default", None, None, "met")


def test_the_first_entry_that_matches_says_what_is_kept(tmp_path):
    keep = tmp_path / "keep.yaml"
    keep.write_text(
        "- {type: nhs.prescribe, keep: 90d, search: {drug: blind}}\n- {type: 'nhs.*', keep: nothing}\n"
    )
    setting = history_setting("postgresql://db/history", None, keep, "met")
    assert setting is not None
    assert setting.url == "postgresql+psycopg://db/history"
    first, second = setting.rules
    assert (first.seconds, first.search, second.keep) == (90 * 86_400, {"drug": Search.BLIND}, False)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- {type: x, keep: long}", "write `for ever`"),
        ("- {type: x, search: {a: yes}}", "must list types"),
        ("- [", "is not YAML"),
        ("- {typ: x}", "must list types"),
    ],
)
def test_what_is_wrong_with_a_keep_file_is_said(tmp_path, text, problem):
    keep = tmp_path / "keep.yaml"
    keep.write_text(text)
    with pytest.raises(FileRefused, match=problem):
        history_setting("default", None, keep, "met")


def test_a_keep_file_without_a_history_is_a_mistake(tmp_path):
    with pytest.raises(NoHistory):
        history_setting(None, None, tmp_path / "keep.yaml", "met")


def test_without_the_packages_a_broker_runs_and_a_history_says_what_to_install():
    ran = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True)
    assert "pip install 'authfabric[history]'" in ran.stdout


def test_who_names_no_broker_is_told_which_have_a_history():
    with pytest.raises(NoSuchHistory, match="none has been kept here"):
        history_setting("default", None, None, "host", create=False)
    history_setting("default", None, None, "met")
    with pytest.raises(NoSuchHistory, match="no history of the broker `host`: name one by `--broker`: met"):
        history_setting("default", None, None, "host", create=False)


def test_no_other_key_is_made_for_a_history_that_is_there(state):
    history_setting("default", None, None, "met")
    (state / "met.db").touch()
    (state / "met.key").unlink()
    with pytest.raises(KeyFileRefused, match="put it back"):
        history_setting("default", None, None, "met")
    assert not (state / "met.key").exists()
