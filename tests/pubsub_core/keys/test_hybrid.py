"""What is said to a manager is for it alone, its answer for the asker alone, and its state for its replicas alone."""

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from authz import Identity
from pubsub_core.keys.derivation import derive
from pubsub_core.keys.errors import CannotOpen
from pubsub_core.keys.hybrid import Question, Secrets, ask

MANAGER = Identity.from_seed(b"m" * 32)


@given(st.binary(), st.binary())
def test_a_question_and_its_answer_go_both_ways(content, reply):
    question, asker = ask(Secrets(MANAGER).public, content)
    heard, manager = Secrets(MANAGER).hear(question)  # another replica
    assert heard == content
    assert asker.open(manager.close(reply)) == reply


def test_another_manager_hears_nothing():
    question, _ = ask(Secrets(MANAGER).public, b"secret")
    with pytest.raises(CannotOpen):
        Secrets(Identity.generate()).hear(question)


def test_answers_do_not_fit_other_questions():
    secrets = Secrets(MANAGER)
    first, asker = ask(secrets.public, b"one")
    second, _ = ask(secrets.public, b"one")
    assert first != second
    _, to_second = secrets.hear(second)
    with pytest.raises(CannotOpen):
        asker.open(to_second.close(b"answer"))


def test_two_answers_to_one_question_share_no_key():
    secrets = Secrets(MANAGER)
    question, _ = ask(secrets.public, b"one")
    boxes = [secrets.hear(question)[1].close(b"same") for _ in range(2)]
    assert boxes[0][16:] != boxes[1][16:]


@pytest.mark.parametrize("asker", [b"", b"short", bytes(32), b"x" * 33])
def test_a_key_that_is_none_is_refused(asker):
    with pytest.raises(CannotOpen):
        Secrets(MANAGER).hear(Question(asker, b"x" * 64))


def test_state_opens_under_its_own_name_only():
    secrets = Secrets(MANAGER)
    sealed = secrets.seal_state("type.a", b"state")
    assert Secrets(MANAGER).open_state("type.a", sealed) == b"state"
    for name, data in (("type.b", sealed), ("type.a", sealed[:-1]), ("type.a", b"")):
        with pytest.raises(CannotOpen):
            secrets.open_state(name, data)


def test_no_secret_comes_of_a_signature():
    """Signatures are shown to others, and some are made over what others chose."""
    root = MANAGER.sign(b"authfabric secrets of a key manager 1\0")
    pair = X25519PrivateKey.from_private_bytes(derive(root, "exchange"))
    assert Secrets(MANAGER).public != pair.public_key().public_bytes_raw()
