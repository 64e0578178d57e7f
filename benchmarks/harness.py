"""How every benchmark measures and prints: the best of several rounds, as a table or as JSON."""

from __future__ import annotations

import argparse
import gc
import json
from collections.abc import Callable, Iterable
from time import perf_counter

ROUNDS = 7


def best(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Seconds of the fastest round: what the code costs, without what else the machine was doing."""
    return best_of_each({"": work}, rounds)[""]


def best_of_each(works: dict[str, Callable[[], object]], rounds: int = ROUNDS) -> dict[str, float]:
    """The same for several rivals, round by round in turn, so that a slow moment strikes them all."""
    fastest = dict.fromkeys(works, float("inf"))
    for _ in range(rounds):
        for name, work in works.items():
            fastest[name] = min(fastest[name], _time(work))
    return fastest


def _time(work: Callable[[], object]) -> float:
    gc.collect()
    gc.disable()
    try:
        start = perf_counter()
        work()
        return perf_counter() - start
    finally:
        gc.enable()


def main(run: Callable[[], dict[str, float]], arguments: Iterable[str] | None = None) -> None:
    """Run a benchmark from the command line."""
    parser = argparse.ArgumentParser(description=run.__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(None if arguments is None else list(arguments))
    figures = {name: float(f"{value:.4g}") for name, value in run().items()}
    if options.json:
        print(json.dumps(figures))
    else:
        width = max(map(len, figures))
        print("\n".join(f"{name:<{width}}  {value:,}" for name, value in figures.items()))
