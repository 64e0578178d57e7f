"""Defences of role services against records that were signed once and are put back."""

from __future__ import annotations

from tests.mutations.mutation import Edit, Mutation, without

_OLD = "tests/pdp/sessions/test_old_records.py::"
_SERVICE = "pdp/sessions/role_service.py"
_NUMBERED = Edit(
    _SERVICE,
    "if record is None or record.number <= self._newest.get(name, -1):",
    "if record is None:",
)
_FINAL = Edit(
    "pdp/sessions/session_state.py", "if over is not None and not record.ended:", "if over is None and False:"
)

ROLES: list[Mutation] = [
    Mutation(f"{_OLD}test_a_role_that_was_given_up_does_not_come_back_with_an_old_record", (_NUMBERED,)),
    Mutation(
        f"{_OLD}test_a_session_that_was_closed_does_not_open_again_with_an_old_record", (_NUMBERED, _FINAL)
    ),
    Mutation(f"{_OLD}test_that_a_session_has_ended_is_final_whatever_is_stored_later", (_FINAL,)),
    without(
        f"{_OLD}test_what_was_revoked_stays_so_though_its_record_is_taken_out[taken out]",
        _SERVICE,
        "if known is not None and not known.over(self.keeper.now):",
        "if False:",
    ),
    without(
        f"{_OLD}test_what_was_revoked_stays_so_though_its_record_is_taken_out[junk]",
        _SERVICE,
        "undone += [] if known is None else [known]",
        "pass",
    ),
    without(
        f"{_OLD}test_what_is_put_where_something_will_be_revoked_keeps_nobody_from_revoking",
        _SERVICE,
        "            self._numbers[name] = each.number\n            record = self._verify(name, each.data)\n",
        "            record = self._verify(name, each.data)\n"
        "            if record is not None:\n"
        "                self._numbers[name] = each.number\n",
    ),
    without(
        f"{_OLD}test_a_fact_that_was_retracted_is_not_true_again_with_an_old_record",
        _SERVICE,
        "if record.said > min(self._gone, time() - SWEEP_SECONDS):",
        "if True:",
    ),
]
