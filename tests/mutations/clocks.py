"""The defences against clocks that are wrong, or set while something runs."""

from __future__ import annotations

from tests.mutations.mutation import Edit, Mutation, without

_FORGET = Edit("authz/spki/revocation.py", "while len(self._ends) > KEPT and", "while self._ends and")

CLOCKS: list[Mutation] = [
    Mutation(
        "tests/pdp/access/test_service_revocation.py::"
        "TestExpiry::test_a_clock_that_is_ahead_for_a_while_undoes_no_revocation",
        (_FORGET,),
    ),
    without(
        "tests/pdp/access/test_service_revocation.py::"
        "TestExpiry::test_a_clock_that_is_ahead_for_a_while_undoes_no_revocation",
        "pdp/access/notice_store.py",
        "if now - since >= SPENT_SECONDS]",
        "if now >= since]",
    ),
    Mutation(
        "tests/pep/test_authority.py::test_a_clock_that_is_ahead_for_a_while_brings_no_revoked_pdp_back",
        (_FORGET,),
    ),
    without(
        "tests/pdp/access/test_issuing_service.py::"
        "test_a_replica_whose_clock_is_behind_revokes_what_another_gave",
        "pdp/access/issuing_service.py",
        "if end is None or now < end:",
        "if capability.validity.covers(now):",
    ),
    without(
        "tests/pdp/sessions/test_role_service_store.py::"
        "test_a_clock_that_is_ahead_for_a_while_brings_no_revoked_appointment_back",
        "pdp/sessions/role_service.py",
        "if isinstance(record, RevokedRecord) and now - self._over_since[name] < REVOKED_SECONDS:",
        "if False:",
    ),
    without(
        "tests/pubsub_core/trust/test_broker_trust.py::"
        "test_a_clock_that_is_set_back_keeps_no_owner_within_reach",
        "pubsub_core/trust/broker_trust.py",
        "return heard - BEAT_LIMIT <= now <= sent",
        "return now <= sent",
    ),
    without(
        "tests/pdp/sessions/test_role_service_store.py::test_a_clock_that_was_ahead_locks_nobody_out",
        "pdp/sessions/record.py",
        "return at <= said <= now + SKEW_SECONDS",
        "return at <= said",
    ),
    without(
        "tests/pdp/sessions/test_role_service_store.py::test_a_clock_that_was_ahead_locks_nobody_out",
        "pdp/sessions/role_service.py",
        "        if said <= time() + SKEW_SECONDS:\n",
        "        if True:\n",
        Edit("pdp/sessions/role_service.py", " if self._latest <= now + SKEW_SECONDS else now\n", "\n"),
    ),
    without(
        "tests/pubsub_core/trust/test_broker_trust.py::"
        "test_a_word_that_was_dated_ahead_is_taken_back_all_the_same",
        "pubsub_core/trust/vouches.py",
        "return self.until > now and (self.withdrawn or self.made <= now + AHEAD_SECONDS)",
        "return self.until > now",
    ),
    without(
        "tests/pubsub_core/key_groups/test_manager_service.py::"
        "test_a_manager_whose_appointment_was_dated_ahead_can_be_dismissed",
        "pubsub_core/key_groups/messages.py",
        "self.since - MAX_AGE <= now < self.until",
        "now < self.until",
    ),
]
