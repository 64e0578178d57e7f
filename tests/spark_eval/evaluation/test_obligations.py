"""What has obligations is never answered in advance: only a PDP says what they are."""

from __future__ import annotations

from pdp.abac.policy import Algorithm
from pdp.abac.reader import read_policies
from pdp.bundle.bundle import Bundle, File
from pdp.bundle.policy_set import PolicySet
from sdp_cache.snapshots.snapshot import Ruling
from spark_eval.plans.plan import Rules, make_plan
from spark_eval.plans.policy_rules import rules_of

POLICIES = """
- {uid: free, effect: allow, targets: {action_id: read}, rules: {}}
- {uid: no, effect: deny, targets: {resource_id: x}, rules: {}}
- {uid: obliged, effect: allow, targets: {action_id: read}, rules: {}, obligations: [{attributes: [a]}]}
"""


def test_where_a_policy_with_obligations_applies_the_pdp_is_asked_first():
    for algorithm in Algorithm:
        plan = make_plan([Rules(read_policies(POLICIES), algorithm)])
        first = plan.tiers()[0]
        assert first.ruling is Ruling.ASK
        assert [plan.bits[number].policies for number in first.bits] == [("obliged",)]


def test_rules_stand_beside_policies_of_any_algorithm():
    allow = "- {uid: door, effect: allow, targets: {action_id: subscribe}, rules: {}}"
    rules = "a: ALLOW SUBSCRIPTION TO t WHERE credentials(user, x)"
    for algorithm in Algorithm:
        manifest = File("bundle.yaml", f"algorithm: {algorithm}")
        bundle = Bundle.of([manifest, File("door.yaml", allow), File("t.rules", rules)])
        plan = make_plan(rules_of(PolicySet.read(bundle)))
        order = [plan.bits[number].policies for tier in plan.tiers() for number in tier.bits]
        assert order == [("a",), ("rules:t:subscribe",), ("door",)]
