"""How far the work has come, on the terminal: a bar for each step, or a line where there is no terminal."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

Advance = Callable[[int], None]
"""Called with how much more is done."""

POLL_SECONDS = 0.2


class Steps:
    """Shows steps one after the other. Without a console it is silent."""

    def __init__(self, console: Console | None) -> None:
        self._console = console

    @contextlib.contextmanager
    def step(self, words: str, total: int) -> Iterator[Advance]:
        """A step of `total` parts, for the length of a block."""
        if self._console is None:
            yield lambda _: None
        elif not self._console.is_terminal:
            self._console.print(f"{words} …", highlight=False)
            yield lambda _: None
        else:
            columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
            with Progress(*columns, TimeElapsedColumn(), console=self._console) as bars:
                task = bars.add_task(words, total=total)
                yield lambda count: bars.advance(task, count)
                bars.update(task, completed=total)

    @contextlib.contextmanager
    def watch(self, session: SparkSession, words: str, tasks: int) -> Iterator[None]:
        """A step of `tasks` Spark tasks: those of the stages that run within the block."""
        with self.step(words, tasks) as advance:
            # Over Spark Connect there is no tracker to ask: the bar fills when the step is done.
            if self._console is None or not isinstance(session, SparkSession):
                yield
                return
            stop = threading.Event()
            thread = threading.Thread(target=_follow, args=(session, advance, stop), daemon=True)
            thread.start()
            try:
                yield
            finally:
                stop.set()
                thread.join()


def _follow(session: SparkSession, advance: Advance, stop: threading.Event) -> None:
    """Ask Spark again and again how many tasks are done."""
    tracker = session.sparkContext.statusTracker()
    done: dict[int, int] = {}
    while not stop.wait(POLL_SECONDS):
        for stage in tracker.getActiveStageIds():
            info = tracker.getStageInfo(stage)
            if info is not None:
                advance(info.numCompletedTasks - done.get(stage, 0))
                done[stage] = info.numCompletedTasks
