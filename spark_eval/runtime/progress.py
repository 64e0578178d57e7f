"""How far the work has come and how long it may still take: a bar on a terminal, elsewhere a line now and then."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from time import monotonic

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

Advance = Callable[[int], None]
"""Called with how much more is done."""

POLL_SECONDS = 0.2
LINE_SECONDS = 15.0
"""How often a line is written where there is no terminal."""


class Steps:
    """Shows steps one after the other. Without a console it is silent."""

    def __init__(self, console: Console | None) -> None:
        self._console = console
        self._expected: list[float] = []
        self._done = 0
        self._began = monotonic()

    def expect(self, seconds: Sequence[float]) -> None:
        """Say how many steps there will be, and about how long each takes: then it is told how long all will take."""
        self._expected = list(seconds)
        self._done = 0
        self._began = monotonic()

    def say(self, words: str) -> None:
        """One line, whatever is shown."""
        if self._console is not None:
            self._console.print(escape(words), highlight=False, soft_wrap=True)

    @contextlib.contextmanager
    def step(self, words: str, total: int) -> Iterator[Advance]:
        """A step of `total` parts, for the length of a block."""
        self._done += 1
        if self._expected:
            words = f"{self._done}/{len(self._expected)} {words}"
        if self._console is None:
            yield lambda _: None
        elif not self._console.is_terminal:
            self.say(f"{words} …")
            yield _Lines(words, total, self.say, self._left).advance
        else:
            columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
            left = _Left(self._left)
            with Progress(*columns, TimeElapsedColumn(), left, console=self._console) as bars:
                task = bars.add_task(escape(words), total=total)
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

    def _left(self, share: float, elapsed: float) -> str:
        """How long this step, of which a share is done, and all later ones may take, as far as is known."""
        later = sum(self._expected[self._done :])
        mine = self._expected[self._done - 1] if self._done <= len(self._expected) else None
        seconds = remaining(share, elapsed, mine)
        if seconds is None:
            return ""
        if not later:
            return f"{duration(seconds)} left"
        # Machines differ: what comes will be as much faster or slower than expected as what was.
        expected = sum(self._expected[: self._done])
        pace = (monotonic() - self._began + seconds) / expected if expected else 1.0
        return f"{duration(seconds)} left, about {duration(seconds + later * pace)} in all"


class _Lines:
    """Writes how far a step has come, now and then."""

    def __init__(
        self, words: str, total: int, say: Callable[[str], None], left: Callable[[float, float], str]
    ) -> None:
        self._words = words
        self._total = total
        self._say = say
        self._left = left
        self._done = 0
        self._began = self._said = monotonic()

    def advance(self, count: int) -> None:
        self._done += count
        now = monotonic()
        if now - self._said < LINE_SECONDS or not self._done:
            return
        self._said = now
        share = min(self._done / self._total, 1.0)
        self._say(f"{self._words}: {100 * share:.0f} %, {self._left(share, now - self._began)}")


class _Left(ProgressColumn):
    """How long it may still take."""

    def __init__(self, left: Callable[[float, float], str]) -> None:
        super().__init__()
        self._words = left

    def render(self, task: Task) -> Text:
        return Text(self._words(task.percentage / 100, task.elapsed or 0.0))


def remaining(share: float, elapsed: float, expected: float | None) -> float | None:
    """How many seconds are left of a step: at first as was expected, later as it has gone until now.

    A step begins with processes that start, while nothing of it is done.
    """
    if expected is None:
        return elapsed / share - elapsed if share else None
    return (1 - share) * ((1 - share) * max(expected, elapsed) + elapsed)


def duration(seconds: float) -> str:
    """A time in the two units that matter."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


def _follow(session: SparkSession, advance: Advance, stop: threading.Event) -> None:
    """Ask Spark again and again how many tasks are done, for as long as it is there."""
    done: dict[int, int] = {}
    with contextlib.suppress(Py4JError, OSError):
        tracker = session.sparkContext.statusTracker()
        while not stop.wait(POLL_SECONDS):
            for stage in tracker.getActiveStageIds():
                info = tracker.getStageInfo(stage)
                if info is not None:
                    advance(info.numCompletedTasks - done.get(stage, 0))
                    done[stage] = info.numCompletedTasks
