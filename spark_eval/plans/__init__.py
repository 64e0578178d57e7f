"""Policies compiled for bulk evaluation: conditions split by side, rules as bits, masks and joins."""

from spark_eval.plans.joins import Relation, meet, relate
from spark_eval.plans.masks import Classes, Keys, Masks, Side, evaluate, width
from spark_eval.plans.plan import Bit, Plan, Rank, Tier, make_plan
from spark_eval.plans.policy_rules import derivations, needs_roles, rules_of
from spark_eval.plans.split import Clause, Part, part_of

__all__ = [
    "Bit", "Classes", "Clause", "Keys", "Masks", "Part", "Plan", "Rank", "Relation", "Side", "Tier",
    "derivations", "evaluate", "make_plan", "meet", "needs_roles", "part_of", "relate", "rules_of", "width",
]  # fmt: skip
