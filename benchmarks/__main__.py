"""`make bench`: run every benchmark, keep its JSON in benchmarks/results/, write docs/performance.md."""

from __future__ import annotations

import json
import pkgutil
import platform
import subprocess
import sys
from pathlib import Path

import benchmarks

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PAGE = HERE.parent / "docs" / "performance.md"

# What each figure promises: a bound, and whether it is a most or a least. Figures without one only inform.
BOUNDS: dict[str, tuple[str, float]] = {
    "rtt_ratio": ("<=", 1.1),
    "throughput_ratio": (">=", 6),
    "hedge_load_ratio": ("<=", 1.1),
    "frozen_failures": ("<=", 0),
    "subscriptions_ratio": ("<=", 1.2),
    "vs_py_abac_1000": (">=", 500),
    "vs_best_peer_10": (">=", 5),
    "vs_best_peer_1000": (">=", 30),
    "vs_best_peer_rbac": (">=", 4),
    "growth_10_to_10000": ("<=", 5),
    "certificate_cost": ("<=", 2),
    "hit_vs_dict": ("<=", 12),
    "approx_growth": ("<=", 2),
    "saam_gain": (">=", 1.8),
}


def names() -> list[str]:
    """The benchmarks: the modules here that have a `run`."""
    modules = (module.name for module in pkgutil.iter_modules(benchmarks.__path__))
    return [name for name in modules if "def run()" in (HERE / f"{name}.py").read_text()]


def measure(name: str) -> dict[str, float]:
    """Run one benchmark in a process of its own, and keep what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", "--json"], check=True, stdout=subprocess.PIPE
    )
    figures: dict[str, float] = json.loads(done.stdout)
    (RESULTS / f"{name}.json").write_text(json.dumps(figures, indent=2) + "\n")
    return figures


def section(name: str, figures: dict[str, float]) -> str:
    rows = [f"| `{figure}` | {value:,} | {_promise(figure, value)} |" for figure, value in figures.items()]
    head = [f"## {name}", "", f"`python -m benchmarks.{name} --json`", ""]
    return "\n".join([*head, "| figure | measured | promised |", "| --- | ---: | --- |", *rows])


def _promise(figure: str, value: float) -> str:
    if figure not in BOUNDS:
        return ""
    sign, bound = BOUNDS[figure]
    kept = value <= bound if sign == "<=" else value >= bound
    return f"{'at most' if sign == '<=' else 'at least'} {bound:g}" + ("" if kept else " (missed)")


def main() -> None:
    RESULTS.mkdir(exist_ok=True)
    sections = []
    for name in names():
        print(f"benchmarks.{name} …", flush=True)
        sections.append(section(name, measure(name)))
    machine = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    PAGE.write_text(
        "# Performance\n\n"
        "Written by `make bench`. Each figure is the best of several rounds; ratios compare things measured in one\n"
        f"run on one machine ({machine}). The code is in `benchmarks/`.\n\n" + "\n\n".join(sections) + "\n"
    )
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
