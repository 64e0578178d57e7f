"""The page on history: its keep file is one."""

from __future__ import annotations

from pathlib import Path

from authfabric.files.history import history_setting
from tests.documents import run_examples

PAGE = Path(__file__).parents[2] / "docs" / "history.md"


def test_the_keep_file_of_the_page_is_read(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    run_examples(PAGE, tmp_path)
    setting = history_setting("default", None, tmp_path / "keep.yaml", "met")
    assert setting is not None
    assert [each.type for each in setting.rules] == ["nhs.prescribe", "nhs.vitals.*"]
