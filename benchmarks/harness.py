"""How every benchmark measures and prints: the best of several rounds, as a table or as JSON."""

from __future__ import annotations

import argparse
import gc
import json
import signal
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import TypeAlias

Clock: TypeAlias = Callable[[], float]
"""What time is taken by: `perf_counter`, or `thread_time` for work that waits for nothing."""
_START = perf_counter()
ROUNDS = 7
PATIENCE = 5.0
"""Seconds after which a rival is not run again."""


@dataclass(frozen=True, slots=True)
class Promise:
    """The bound that a figure must keep. Figures without one only inform."""

    bound: float
    least: bool

    def kept(self, value: float) -> bool:
        return value >= self.bound if self.least else value <= self.bound

    def __str__(self) -> str:
        return f"at {'least' if self.least else 'most'} {self.bound:g}"


class Unfinished(Exception):
    """Something has failed; the figures are what was measured before."""

    def __init__(self, problem: object, figures: dict[str, float]) -> None:
        super().__init__(str(problem))
        self.figures = figures


def at_most(bound: float) -> Promise:
    return Promise(bound, least=False)


def at_least(bound: float) -> Promise:
    return Promise(bound, least=True)


def best(work: Callable[[], object], rounds: int = ROUNDS, clock: Clock = perf_counter) -> float:
    """Seconds of the fastest round: what the code costs, without what else the machine was doing."""
    return best_of_each({"": work}, rounds, clock)[""]


def best_of_each(
    works: dict[str, Callable[[], object]], rounds: int = ROUNDS, clock: Clock = perf_counter
) -> dict[str, float]:
    """The same for several rivals, round by round in turn, so that a slow moment strikes them all."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            if sum(times[name]) < PATIENCE:
                times[name].append(_time(work, clock))
    return {name: min(each) for name, each in times.items()}


def _time(work: Callable[[], object], clock: Clock) -> float:
    gc.collect()
    gc.disable()
    try:
        start = clock()
        work()
        return clock() - start
    finally:
        gc.enable()


def progress(what: str) -> None:
    """Tell whoever waits what is measured now, where it is no part of the figures."""
    print(f"{perf_counter() - _START:6.0f} s  {what}", file=sys.stderr, flush=True)


def main(
    run: Callable[[], dict[str, float]],
    arguments: Iterable[str] | None = None,
    parts: Mapping[str, Callable[[], dict[str, float]]] | None = None,
    *,
    one_by_one: bool = False,
) -> None:
    """Run a benchmark from the command line; of one in parts, perhaps only some.

    A part that fails is named, and costs the figures of no other; whoever ends the run early, by SIGTERM or Ctrl-C, is
    given the figures until then. The exit code is 1 in both cases. `one_by_one` says that all parts are what `run`
    measures.
    """
    parser = argparse.ArgumentParser(description=run.__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    if parts is not None:
        parser.add_argument(
            "--only", action="append", choices=parts, help="run this part; repeat it for several"
        )
    options = parser.parse_args(None if arguments is None else list(arguments))
    chosen: Mapping[str, Callable[[], dict[str, float]]] = {"": run}
    if parts is not None and (options.only or one_by_one):
        chosen = {name: parts[name] for name in options.only or parts}
    measured, failed = dict[str, float](), False
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    for name, each in chosen.items():
        try:
            measured |= each()
        except KeyboardInterrupt:
            failed = True
            progress(f"{name or 'the run'} was ended early")
            break
        except Exception as error:
            if not name:
                raise
            failed = True
            if isinstance(error, Unfinished):
                measured |= error.figures
            progress(f"{name} has failed: {type(error).__name__}: {error}")
    figures = {name: float(f"{value:.4g}") for name, value in measured.items()}
    if options.json:
        print(json.dumps(figures))
    else:
        width = max(map(len, figures), default=0)
        print("\n".join(f"{name:<{width}}  {value:,}" for name, value in figures.items()))
    if failed:
        sys.exit(1)
