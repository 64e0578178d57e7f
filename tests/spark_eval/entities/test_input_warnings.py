"""What is probably a mistake is told; what may well be meant is not."""

from __future__ import annotations

from authz import Entity
from authz.decision import Effect
from authz.predicate import Equal, Order, Path, Relate
from pdp.abac.policy import Policy
from spark_eval.entities.input_warnings import oversights
from spark_eval.entities.mask_tasks import MaskWork
from spark_eval.entities.store import BundledEntities
from spark_eval.plans.plan import Rules, make_plan
from spark_eval.plans.split import Part

RISK = Path("action", ("risk",))


def warnings(condition, *actions, may_lack=()):
    plan = make_plan([Rules((Policy("p", Effect.ALLOW, condition),))])
    work = MaskWork(plan, Part.PERMISSION, actions=actions)
    objects = BundledEntities("things", [Entity("/a"), Entity("/b")]).masks(work)
    return oversights([MaskWork(plan, Part.SUBJECT), work], objects, may_lack)


def test_an_action_that_a_policy_names_is_no_mistake():
    assert not warnings(Equal(Path("action"), "read"), Entity("read"))


def test_an_action_is_warned_of_only_if_no_object_has_a_policy_for_it():
    assert not warnings(Equal(Path("object"), "/b"), Entity("anything"))
    (warned,) = warnings(Equal(Path("object"), "/c"), Entity("anything"))
    assert warned == "no policy applies to the action `anything` with any of the objects"


def test_an_attribute_that_no_action_has_is_warned_of_unless_it_may_be_lacking():
    high = Order(RISK, "<", 3)
    assert not warnings(high, Entity("read", {"risk": 1}), Entity("write", {"risk": 2}))
    _, _, warned = warnings(high, Entity("read"), Entity("write"))
    assert warned == "no action has `action.risk`, which the policy `p` looks at"
    assert len(warnings(high, Entity("read"), Entity("write"), may_lack=("action.risk",))) == 2
    compared = Relate(Path("subject", ("level",)), ">=", RISK)
    assert warnings(compared, Entity("read")) == (warned,)
