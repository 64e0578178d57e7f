"""A service that embeds the PEP carries no Spark and no policy engine with it."""

from __future__ import annotations

import subprocess
import sys

HEAVY = [
    "pyspark",
    "pandas",
    "numpy",
    "pyarrow",
    "py_abac",
    "pdp",
    "prometheus_client",
    "rich",
]


def test_importing_pep_loads_none_of_them():
    program = f"import sys, pep; print([name for name in {HEAVY!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"
