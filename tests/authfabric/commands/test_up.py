"""What `authfabric up` tells whoever started it."""

from __future__ import annotations

from authfabric.commands.up import questions
from authfabric.settings import DEFAULT_POLICIES
from authz import Identity
from authz.release import Release, Released
from pdp.bundle_store import read_folder


def released(bundle: str) -> Released:
    return Released(Release("default", 2, bundle, (), at=1.0), Identity.generate().public, "")


def test_questions_are_about_the_examples_only_where_they_are_in_force():
    assert questions(None)[0] == "ask alice /sales/q1 read"
    assert questions(released(read_folder(DEFAULT_POLICIES).hash)) == questions(None)
    assert questions(released("another"))[0] == "ask SUBJECT OBJECT ACTION --explain"
