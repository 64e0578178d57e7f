from __future__ import annotations

import pytest

from spark_eval.runtime.file_store import OutputExists, cache_folder, whole_folder, write_whole


def test_a_folder_appears_when_its_block_ends(tmp_path):
    target = tmp_path / "deep" / "out"
    with whole_folder(target, "mark") as folder:
        (folder / "mark").write_text("1")
        assert not target.exists()
    assert (target / "mark").read_text() == "1"
    assert list(target.parent.iterdir()) == [target]


def test_a_folder_whose_block_fails_leaves_nothing(tmp_path):
    def half() -> None:
        with whole_folder(tmp_path / "out", "mark") as folder:
            (folder / "mark").write_text("1")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        half()
    assert list(tmp_path.iterdir()) == []


def test_an_earlier_output_is_replaced_whole(tmp_path):
    for text in ("old", "new"):
        with whole_folder(tmp_path / "out", "mark") as folder:
            (folder / "mark").write_text(text)
            (folder / text).touch()
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["mark", "new"]
    assert len(list(tmp_path.iterdir())) == 1


def test_a_folder_of_somebody_else_is_never_replaced(tmp_path):
    (tmp_path / "photo").touch()
    with pytest.raises(OutputExists, match="already exists"), whole_folder(tmp_path, "mark"):
        pytest.fail("the block must not begin")
    assert (tmp_path / "photo").exists()


def test_a_file_is_written_whole(tmp_path):
    write_whole(tmp_path / "a" / "b", b"content")
    assert (tmp_path / "a" / "b").read_bytes() == b"content"
    assert len(list((tmp_path / "a").iterdir())) == 1


def test_the_cache_follows_the_xdg_rules(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "authfabric"
