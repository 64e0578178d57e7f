"""What can go wrong in the jobs over the fabric."""

from __future__ import annotations

import importlib.util

from authz.errors import AuthFabricError

PACKAGES = ("pyspark", "numpy", "pandas", "pyarrow", "matplotlib")


class EvaluationError(AuthFabricError):
    """The root of the errors of jobs, experiments and reports."""


class SparkMissing(EvaluationError):
    """The packages that the jobs stand on are not installed: `packages` names them."""

    def __init__(self, packages: list[str]) -> None:
        names = ", ".join(packages)
        super().__init__(f"{names} missing: this command needs Spark, `pip install 'authfabric[spark]'`")
        self.packages = packages


class JavaMissing(EvaluationError):
    """There is no Java that Spark can run on."""

    def __init__(self, least: int) -> None:
        super().__init__(
            f"Spark needs Java {least} or later: install one, or `pip install 'authfabric[spark]'`, which has it"
        )
        self.least = least


class SessionFailed(EvaluationError):
    """Spark did not start, or the cluster asked for cannot be reached."""

    def __init__(self, master: str, problem: str) -> None:
        super().__init__(f"no Spark session on `{master}`: {problem}")
        self.master = master
        self.problem = problem


def require_spark() -> None:
    """Raise SparkMissing unless the extra is installed. Commands call it before they import a job."""
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise SparkMissing(missing)
