"""A server that chooses nonces, and what it wants: the secrets of key managers."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from authz import Identity
from bus import Connection
from pubsub_core.key_groups.manager_service import KeyManager
from pubsub_core.keys.derivation import derive
from pubsub_core.keys.errors import CannotOpen, StateUnreadable
from pubsub_core.keys.hybrid import Secrets, ask, exchanged, unlock
from tests.false_server import lured
from tests.pubsub_core.keys.office import new_type, office


async def test_a_false_server_reads_neither_questions_to_a_key_manager_nor_its_state():
    manager = Identity.generate()
    secrets = Secrets(manager)
    question, _ = ask(secrets.public, b"a capability")
    kept = secrets.seal_state("type.a", b"the keys")
    root = (await lured(manager, "authfabric secrets of a key manager 1\0")).signature
    pair = X25519PrivateKey.from_private_bytes(derive(root, "exchange"))
    with pytest.raises(CannotOpen):
        unlock(exchanged(pair, question.asker, question.asker + secrets.public), "question", question.box)
    with pytest.raises(CannotOpen):
        unlock(derive(root, "state"), "state type.a", kept)


async def test_a_manager_whose_state_was_sealed_otherwise_says_what_to_do(jetstream_server):
    keyed = new_type()
    async with Connection(jetstream_server.url) as bus:
        manager = KeyManager(bus, office(keyed.id))
        await manager._store.write(manager._name("plan"), b"sealed in another way", 0)
        with pytest.raises(StateUnreadable, match="appoint a manager with a new key"):
            async with manager.serving():
                pass
