"""What a key manager knows of how far its groups had come outlasts it, and only it could have written that down."""

import pytest

from authz import Identity
from pubsub_core.key_groups.state_marks import StateMarks
from pubsub_core.keys.errors import MarksUnknown

ME = Identity.from_seed(b"m" * 32)


def test_a_mark_only_grows_and_replicas_share_a_file(tmp_path):
    file = tmp_path / "folder" / "keys.marks"
    first, second = StateMarks(file, ME), StateMarks(file, ME)
    first.keep("a", 3)
    first.keep("a", 2)
    second.keep("b", 1)
    assert [StateMarks(file, ME).of(each) for each in "abc"] == [3, 1, 0]
    assert file.stat().st_mode & 0o77 == 0


def test_a_file_that_another_signed_or_that_cannot_be_written_is_refused(tmp_path):
    file = tmp_path / "keys.marks"
    StateMarks(file, Identity.generate()).keep("a", 9)
    with pytest.raises(MarksUnknown, match="cannot be read"):
        StateMarks(file, ME)
    (tmp_path / "taken").write_text("")
    with pytest.raises(MarksUnknown):
        StateMarks(tmp_path / "taken" / "keys.marks", ME).keep("a", 1)
