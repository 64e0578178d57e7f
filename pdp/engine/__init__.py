"""What decides: policy sources, combined; certificates, explanations and indexes over their conditions."""

from pdp.engine.access_predicates import Dimension, guards
from pdp.engine.certify import Certifier, Plan
from pdp.engine.cover_index import CoverIndex
from pdp.engine.engine import Engine
from pdp.engine.exclusion import Filing
from pdp.engine.explain import explain_policy, is_about
from pdp.engine.index import Index, check_condition, pack_index
from pdp.engine.refute import demands
from pdp.engine.source import SILENT, PolicySource, Verdict, combine

__all__ = [
    "SILENT", "Certifier", "CoverIndex", "Dimension", "Engine", "Filing", "Index", "Plan", "PolicySource",
    "Verdict", "check_condition", "combine", "demands", "explain_policy", "guards", "is_about", "pack_index",
]  # fmt: skip
