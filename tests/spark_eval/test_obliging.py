"""What has obligations is never answered in advance: only a PDP says what they are."""

from __future__ import annotations

from pdp.abac.policy import Algorithm
from pdp.abac.reader import read_policies
from sdp_cache.snapshot import Ruling
from spark_eval.plan import Rules, make_plan

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
