"""Run benchmarks, keep their JSON in benchmarks/results/, and write docs/performance.md."""

from __future__ import annotations

import argparse
import json
import pkgutil
import platform
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import benchmarks
from benchmarks.harness import Promise

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PAGE = HERE.parent / "docs" / "performance.md"


def names() -> list[str]:
    """The benchmarks: the modules here that have a `run`."""
    modules = (module.name for module in pkgutil.iter_modules(benchmarks.__path__) if not module.ispkg)
    return [name for name in modules if "\ndef run()" in (HERE / f"{name}.py").read_text()]


def measure(name: str) -> dict[str, float]:
    """Run one benchmark in a process of its own, and keep what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", "--json"], check=True, stdout=subprocess.PIPE
    )
    figures: dict[str, float] = json.loads(done.stdout)
    (RESULTS / f"{name}.json").write_text(json.dumps(figures, indent=2) + "\n")
    return figures


def section(name: str, figures: dict[str, float]) -> str:
    promises: dict[str, Promise] = getattr(import_module(f"benchmarks.{name}"), "PROMISES", {})
    rows = [
        f"| `{figure}` | {value:,} | {_promise(promises.get(figure), value)} |"
        for figure, value in figures.items()
    ]
    head = [f"## {name}", "", f"`python -m benchmarks.{name} --json`", ""]
    return "\n".join([*head, "| figure | measured | promised |", "| --- | ---: | --- |", *rows])


def _promise(promise: Promise | None, value: float) -> str:
    if promise is None:
        return ""
    return str(promise) if promise.kept(value) else f"{promise} (missed)"


def write_page() -> None:
    """What was measured last, of each benchmark."""
    kept = {path.stem: json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))}
    machine = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    sections = [section(name, figures) for name, figures in kept.items()]
    PAGE.write_text(
        "# Performance\n\n"
        "Written by `make bench`. Each figure is the best of several rounds; ratios compare things measured in one\n"
        f"run on one machine ({machine}). The code is in `benchmarks/`.\n\n" + "\n\n".join(sections) + "\n"
    )


def main() -> int:
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="which to run; without any, all of them")
    chosen = parser.parse_args().names
    if unknown := set(chosen) - set(names()):
        parser.error(f"no benchmark `{min(unknown)}`; there are {', '.join(names())}")
    RESULTS.mkdir(exist_ok=True)
    failed = []
    for name in chosen or names():
        print(f"benchmarks.{name} …", flush=True)
        try:
            measure(name)
        except (subprocess.CalledProcessError, ValueError) as error:
            print(f"benchmarks.{name} failed: {error}", file=sys.stderr)
            failed.append(name)
    write_page()
    print(f"wrote {PAGE}")
    if failed:
        print(f"failed, with the figures of before left on the page: {', '.join(failed)}", file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
