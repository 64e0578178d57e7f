"""Defences against policies that say something else than whoever wrote them meant."""

from __future__ import annotations

from tests.mutations.mutation import without

_PUSH = "tests/authfabric/test_push_refusals.py::"

_TYPE = "tests/authfabric/commands/events/test_event_type.py::"
_EVERYTHING = "tests/pdp/lint/test_overly_permissive.py::"
_MEANING = "tests/authfabric/test_policy_meaning.py::"

POLICIES = [
    without(
        "tests/authz/spki/test_use.py::test_content_without_the_attribute_passes_no_negated_condition",
        "authz/spki/content.py",
        "    return compile_predicate(strict(And(where)), _LAYOUTS.get(kind, EVENT))",
        "    return compile_predicate(And(where), _LAYOUTS.get(kind, EVENT))",
    ),
    without(
        "tests/pubsub_core/test_restricting.py::test_an_event_without_the_attribute_passes_no_negated_comparison",
        "authz/predicate/filter.py",
        "    return strict(predicate, _there)",
        "    return predicate",
    ),
    without(
        f"{_MEANING}test_what_is_missing_or_mistyped_fulfils_no_negative_condition",
        "pdp/abac/conditions.py",
        "        return And((fitting[0] if len(fitting) == 1 else Or(fitting), Not(self.positive(path))))",
        "        return Not(self.positive(path))",
    ),
    without(
        f"{_MEANING}test_whoever_leaves_an_attribute_out_escapes_no_deny",
        "pdp/abac/reader.py",
        "_in_deny if text.effect is Effect.DENY else _in_allow",
        "_in_allow",
    ),
    without(
        f"{_MEANING}test_whoever_has_no_role_escapes_no_deny_for_all_but_one",
        "pdp/abac/conditions.py",
        "        return Not(self.positive(path)) if self.negative else self.positive(path)",
        "        return self.on(path)",
    ),
    without(
        f"{_MEANING}test_the_author_of_a_payment_does_not_approve_it",
        "pdp/abac/path.py",
        '    if named and stripped.replace(" ", "") == "$.id":',
        "    if False:",
    ),
    without(
        f"{_MEANING}test_a_deny_for_a_role_is_a_deny_for_its_seniors_and_whatever_its_parameters",
        "pdp/bundle/policy_set.py",
        "            policies = [self._by_role_domain(each, seniors) for each in policies]",
        "            pass",
    ),
    without(
        f"{_MEANING}test_check_names_every_policy_that_means_something_else_than_in_py_abac",
        "pdp/lint/linter.py",
        "    yield from map(_negative, gaps(policies))",
        "",
    ),
    without(
        f"{_PUSH}test_what_check_calls_an_error_is_not_released",
        "pdp/lint/release_checks.py",
        "        raise PoliciesRefused(errors)",
        "        pass",
    ),
    without(
        f"{_PUSH}test_policies_that_fail_their_cases_are_not_released",
        "pdp/lint/release_checks.py",
        "        if report.failures:",
        "        if False:",
    ),
    without(
        f"{_PUSH}test_a_replica_starts_by_no_folder_that_a_push_would_refuse",
        "authfabric/processes/pdp_process.py",
        "        for each in extremes(examine(bundle, policies)):",
        "        for each in ():",
    ),
    without(
        f"{_TYPE}test_what_a_push_would_refuse_does_not_bind_a_type",
        "authfabric/commands/events/event_type_policy.py",
        "    return bundle, justify(examine(bundle, policies), force)",
        "    return bundle, force",
    ),
    without(
        f"{_PUSH}test_everything_to_everyone_is_released_for_a_reason_only_which_the_history_tells",
        "pdp/lint/release_checks.py",
        "        raise ReasonNeeded([each.policy for each in extreme if each.kind is Kind.ALLOWS_EVERYTHING])",
        "        pass",
    ),
    without(
        f"{_EVERYTHING}test_whatever_fits_every_name_fits_everybody",
        "pdp/lint/overly_permissive.py",
        "lambda test: TRUE if _of_every_name(test) else test",
        "lambda test: test",
    ),
    without(
        f"{_EVERYTHING}test_several_policies_that_leave_nothing_out_between_them_are_named",
        "pdp/lint/overly_permissive.py",
        "    together = [] if alone else _together(allows)",
        "    together: list[Policy] = []",
    ),
    without(
        f"{_EVERYTHING}test_a_rule_for_a_role_that_anybody_may_activate_is_named",
        "pdp/lint/linter.py",
        "                yield from _generous(statement, rules.source, generous)",
        "                pass",
    ),
    without(
        f"{_PUSH}test_a_replica_that_allows_everything_says_so_in_its_log",
        "authfabric/processes/pdp_process.py",
        '            _log.warning("%s", each)',
        "            pass",
    ),
    without(
        f"{_PUSH}test_a_folder_that_lost_its_policies_is_an_error_and_released_for_a_reason_only",
        "pdp/lint/release_checks.py",
        "each.kind in (Kind.ALLOWS_EVERYTHING, Kind.NO_POLICIES)",
        "each.kind is Kind.ALLOWS_EVERYTHING",
    ),
]
