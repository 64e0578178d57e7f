"""Defences against policies that say something else than whoever wrote them meant."""

from __future__ import annotations

from tests.mutations.mutation import without

_PUSH = "tests/authfabric/test_push_refusals.py::"

POLICIES = [
    without(
        f"{_PUSH}test_what_check_calls_an_error_is_not_released",
        "pdp/check.py",
        "        raise PoliciesRefused(errors)",
        "        pass",
    ),
    without(
        f"{_PUSH}test_policies_that_fail_their_cases_are_not_released",
        "authfabric/policies.py",
        "        if report.failures:",
        "        if False:",
    ),
    without(
        f"{_PUSH}test_everything_to_everyone_is_released_for_a_reason_only_which_the_history_tells",
        "pdp/publisher_service.py",
        "            raise ReasonNeeded(lavish)",
        "            pass",
    ),
]
