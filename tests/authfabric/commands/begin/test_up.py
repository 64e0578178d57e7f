"""What `authfabric up` tells whoever started it."""

from __future__ import annotations

from authfabric.commands.begin.up import InForce, questions
from authfabric.files.settings import DEFAULT_POLICIES
from authz import Identity
from authz.release import Release, Released
from pdp.bundle.bundle_store import read_folder


def in_force(bundle: str) -> InForce:
    released = Released(
        Release("default", 2, bundle, (), at=1.0), Identity.generate().public, "abcdef012345678"
    )
    return InForce(released)


def test_questions_are_about_the_examples_only_where_they_are_in_force():
    assert in_force(read_folder(DEFAULT_POLICIES).hash).examples
    assert questions(True)[0] == "ask alice /sales/q1 read"
    assert not in_force("another").examples
    assert questions(False)[0] == "ask SUBJECT OBJECT ACTION --explain"


def test_the_release_in_force_is_named_with_number_hash_and_time():
    assert str(in_force("another")).startswith("release 2 (abcdef012345), since 19")
    examples = str(in_force(read_folder(DEFAULT_POLICIES).hash))
    assert examples.startswith("release 2 (abcdef012345) (the examples), since 19")
