"""Jobs: read, transform, write. Everything here does I/O; what it computes is elsewhere."""

from spark_eval.jobs.audit import AuditJob, Chains, export_audit
from spark_eval.jobs.diff import SeenJob, compare_policies, compare_seen
from spark_eval.jobs.experiment import REPORT, ExperimentJob, compare_experiments, run_experiment
from spark_eval.jobs.precompute import Done, PrecomputeJob, precompute_decisions
from spark_eval.jobs.review import ReviewJob, review_access
from spark_eval.jobs.watch import Anomaly, Bounds, WatchJob, watch_audit

__all__ = [
    "REPORT", "Anomaly", "AuditJob", "Bounds", "Chains", "Done", "ExperimentJob", "PrecomputeJob", "ReviewJob",
    "SeenJob", "WatchJob", "compare_experiments", "compare_policies", "compare_seen", "export_audit",
    "precompute_decisions", "review_access", "run_experiment", "watch_audit",
]  # fmt: skip
