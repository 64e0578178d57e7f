"""The table of metrics names every metric that there is, with its kind, and no other."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("authfabric", "bus", "pdp", "pep", "pubsub_core", "sdp_cache")
KINDS = {
    "CounterMetricFamily": "counter",
    "GaugeMetricFamily": "gauge",
    "InfoMetricFamily": "info",
    "_by_reason": "counter",
    "_labelled": "counter",
    "metric": "histogram",
}


@cache
def metrics() -> dict[str, str]:
    """Every metric that the code makes, and of which kind it is."""
    found: dict[str, str] = {}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
                    called = getattr(node.func, "id", getattr(node.func, "attr", ""))
                    name = node.args[0].value
                    if called in KINDS and str(name).startswith("authfabric_"):
                        found[name] = KINDS[called]
    return found


def test_the_table_has_every_metric_with_its_kind_and_no_other():
    rows = re.findall(
        r"^\| `(authfabric_\w+)` \| (\w+) \|", (ROOT / "docs/metrics.md").read_text(), flags=re.M
    )
    made = metrics()
    assert len(made) > 30
    assert dict(rows) == made
