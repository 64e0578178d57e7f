"""Spark jobs over the fabric: precomputed decisions, policy comparison and availability experiments."""

from typing import TYPE_CHECKING

from authz.lazy import lazily

if TYPE_CHECKING:
    from spark_eval.analysis import Diff, Review, decide, register_decide
    from spark_eval.errors import EvaluationError
    from spark_eval.jobs import compare_policies, compare_seen
    from spark_eval.runtime import SparkOptions, open_session

__all__ = [
    "Diff", "EvaluationError", "Review", "SparkOptions", "compare_policies", "compare_seen", "decide",
    "open_session", "register_decide",
]  # fmt: skip

__getattr__ = lazily(
    __name__,
    {
        ".analysis": "Diff Review decide register_decide",
        ".errors": "EvaluationError",
        ".runtime": "SparkOptions open_session",
        ".jobs": "compare_policies compare_seen",
    },
)
