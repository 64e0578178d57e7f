"""How to take away what defends trust: among brokers, in brokers and in managers of keys."""

from __future__ import annotations

from tests.mutations.mutation import Mutation, without

TRUST: list[Mutation] = [
    without(
        "tests/pubsub_core/test_sessions.py::"
        "test_what_a_domain_signs_about_a_client_of_another_does_not_count",
        "pubsub_core/credential.py",
        "if signer not in self._trusted.get(credential.domain, ()):",
        "if not any(signer in keys for keys in self._trusted.values()):",
    ),
]
