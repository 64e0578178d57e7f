"""What policies amount to: policy diffs and access reviews, with their reports."""

from spark_eval.analysis.census import Census, Counts, Log
from spark_eval.analysis.compare import LESS, MORE
from spark_eval.analysis.deciding import NoRequests, decide, register_decide
from spark_eval.analysis.diff import Diff, Example, Group, Summary, prepare
from spark_eval.analysis.diff_report import Told, diff_report
from spark_eval.analysis.review import Review, Reviewed, RoleAccess, Separation, read_separations
from spark_eval.analysis.review_report import review_report
from spark_eval.analysis.seen_diff import Seen, SeenWork, seen_diff
from spark_eval.analysis.usage import UNDECIDED, Usage, usage, usage_report

__all__ = [
    "LESS", "MORE", "UNDECIDED", "Census", "Counts", "Diff", "Example", "Group", "Log", "NoRequests", "Review",
    "Reviewed", "RoleAccess", "Seen", "SeenWork", "Separation", "Summary", "Told", "Usage", "decide", "diff_report",
    "prepare", "read_separations", "register_decide", "review_report", "seen_diff", "usage", "usage_report",
]  # fmt: skip
