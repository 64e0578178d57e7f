"""Writing history behind a running broker: a thread stores what waits, many bundles in one transaction.

Invariant: `done` is called, in the order of `record`, after what was recorded is on the disk, or with the problem that
keeps it from being there. The event loop never waits for the database.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from time import time

import msgspec

from authz.predicate import Predicate
from pubsub_core.events import Event
from pubsub_core.history.at_rest import Body
from pubsub_core.history.errors import HistoryDamaged, HistoryUnavailable
from pubsub_core.history.fluent_log import FluentLog, Row, superfluous
from pubsub_core.history.page_messages import PageFound, PageWanted
from pubsub_core.history.position import Span
from pubsub_core.history.retention import HistorySetting, Keeping, aside
from pubsub_core.history.storage import PAGE, HistoryStore, Reading
from pubsub_core.types import Catalogue, EventType

MAX_WAITING = 65_536
"""Maximum events that wait to be stored; more are not taken until there is room."""
MAX_BATCH = 4_096
READERS = 2
NEAR_PAGE = 4 * PAGE
"""Maximum events in a page that does not leave the broker."""
PRUNE_SECONDS = 60.0
"""Seconds between two removals of events that have been kept long enough."""
PRUNE_MARKS_SECONDS = 3600.0
"""The same for the marks of fluents, all of which have to be read for it."""
PRUNE_ROWS = 5_000
"""Rows pruned at a time, so that those who publish do not wait for it."""

NOT_KEPT = "events cannot be kept at the moment: the broker's log says why"

_log = logging.getLogger("authfabric.history")


@dataclass(frozen=True, slots=True)
class _Job:
    events: Sequence[tuple[Event, Body]]
    keepings: Sequence[Keeping]
    """Types, or versions of types, that were not stored before."""
    done: Callable[[str], None]
    marks: Sequence[bytes] = ()


class Recorder:
    """Stores what a broker's clients publish, and reads it again."""

    def __init__(
        self, store: HistoryStore, setting: HistorySetting, catalogue: Catalogue, marks: Sequence[Row] = ()
    ) -> None:
        """`marks` are those of fluents that were stored before."""
        self.store = store
        self.fluents = FluentLog(marks, self._note, lambda: store.kept.values())
        self.problem = ""
        """Why nothing can be stored at the moment."""
        self._setting = setting
        self._catalogue = catalogue
        self._kept: dict[tuple[str, bool], bool] = {}
        """By version, and whether others have replaced them: whether its events are kept."""
        self._jobs: deque[_Job] = deque()
        self._unkept: deque[bytes] = deque(maxlen=MAX_WAITING)
        """Marks that could not be stored, to be tried again."""
        self._waiting = 0
        self._news = threading.Event()
        self._ending = False
        self._pruned = self._pruned_marks = 0.0
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._write, name="history", daemon=True)
        self._readers = ThreadPoolExecutor(READERS, "history-reader")

    @property
    def full(self) -> bool:
        """Whether nothing more can be recorded for the moment."""
        return self._waiting > MAX_WAITING

    def record(
        self,
        events: Sequence[tuple[Event, Body]],
        done: Callable[[str], None],
        replaced: Sequence[tuple[Event, Body]] = (),
    ) -> None:
        """Store events, then call back with the problem, which is empty if there is none.

        Those that they have replaced are stored too, where no page is read from: nobody was to see them as they are.
        """
        new: list[Keeping] = []
        versions = {event.version for event, _ in events}
        wanted = {each for each in versions if self._keeps(each, new)}
        kept = [each for each in events if each[0].version in wanted] if wanted != versions else list(events)
        kept += [
            (aside(event), body) for event, body in replaced if self._keeps(event.version, new, replaced=True)
        ]
        self._waiting += len(kept)
        self._jobs.append(_Job(kept, new, done))
        self._news.set()

    def _note(self, mark: bytes) -> None:
        """Store when a fluent began or ended, before whatever is recorded from now on."""
        self._jobs.append(_Job((), (), lambda problem: None, (mark,)))
        self._news.set()

    async def page(
        self,
        wanted: PageWanted,
        filter: Predicate,  # noqa: A002 - the domain's own word
        spans: Sequence[Span],
        near: bool,
    ) -> PageFound:
        """The page that is asked for, by this filter and of these times. Raises HistoryUnavailable."""
        read = partial(_page, self.store, wanted, Reading(wanted.type, spans, filter), near)
        return await self._loop.run_in_executor(self._readers, read)

    def _keeps(self, version: str, new: list[Keeping], replaced: bool = False) -> bool:
        kept = self._kept.get((version, replaced))
        if kept is None:
            definition = self._catalogue.version(version)
            newest = self._catalogue.newest(definition.id)
            keeping = self._keeping(newest)
            kept = self._kept[version, replaced] = keeping is not None
            new += [] if keeping is None else [keeping.aside if replaced else keeping]
        return kept

    def _keeping(self, newest: EventType) -> Keeping | None:
        """What is kept of a type, searched by attributes that are of one type in all its versions."""
        keeping = self._setting.keeping(newest, self._catalogue.attributes(newest.version))
        if keeping is None:
            return None
        retyped = self._catalogue.retyped
        one = {each: how for each, how in keeping.searched.items() if not retyped(newest.version, [each])}
        return replace(keeping, searched=one)

    def _write(self) -> None:
        """The thread: store what waits, until told to end."""
        while not self._ending or self._jobs:
            self._news.wait(PRUNE_SECONDS)
            self._news.clear()
            while jobs := self._next():
                problem = self._store(jobs)
                self._loop.call_soon_threadsafe(self._finish, jobs, problem)
            if self._unkept:
                self._store(())
            if time() - self._pruned > PRUNE_SECONDS and not self._ending:
                self._prune()

    def _next(self) -> list[_Job]:
        jobs, size = list[_Job](), 0
        while self._jobs and size < MAX_BATCH:
            jobs.append(self._jobs.popleft())
            size += len(jobs[-1].events)
        return jobs

    def _store(self, jobs: Sequence[_Job]) -> str:
        """Try twice: a connection may have been lost since the last time."""
        self._unkept.extend(mark for job in jobs for mark in job.marks)
        for attempt in range(2):
            try:
                for keeping in (each for job in jobs for each in job.keepings):
                    self.store.keep(keeping)
                self.store.append((each for job in jobs for each in job.events), tuple(self._unkept))
                self._unkept.clear()
                return ""
            except HistoryUnavailable as error:
                if attempt:
                    return str(error)
            except Exception:  # nobody else would store anything, if this were the end of the thread
                _log.exception("events cannot be kept")
                return NOT_KEPT
        return ""

    def _finish(self, jobs: Sequence[_Job], problem: str) -> None:
        """On the event loop again."""
        if problem and not self.problem:
            _log.error("nothing can be published: %s", problem)
        elif self.problem and not problem:
            _log.warning("events are kept again")
        self.problem = problem
        for job in jobs:
            self._waiting -= len(job.events)
            if problem:
                self._kept.clear()  # what was to be made ready may not be
            self._answer(job, problem)

    def _answer(self, job: _Job, problem: str) -> None:
        try:
            # Where the history is, and what its database says, is nothing to those who publish.
            job.done(NOT_KEPT if problem and job.events else "")
        except Exception:  # what becomes of one bundle must not be in the way of what becomes of others
            _log.exception("what was kept could not be passed on")

    def _prune(self) -> None:
        """Forget what has been kept long enough, a little at a time."""
        self._pruned = now = time()
        if now - self._pruned_marks > PRUNE_MARKS_SECONDS:
            self._pruned_marks = now
            self._prune_marks(now)
        for type_, keeping in self.store.kept.items():
            if keeping.seconds is None:
                continue
            try:
                gone = self.store.prune(type_, now - keeping.seconds, PRUNE_ROWS)
            except (HistoryUnavailable, HistoryDamaged) as error:
                _log.error("%s", error)
                return
            if gone == PRUNE_ROWS:  # there is more: go on after whoever is publishing
                self._pruned = 0.0
                self._news.set()

    def _prune_marks(self, now: float) -> None:
        try:
            self.store.forget_marks(superfluous(self.store.marks(), self.fluents.since(now)))
        except HistoryUnavailable as error:
            _log.error("%s", error)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._ending = True
            self._news.set()
            await asyncio.to_thread(self._thread.join)
            self._readers.shutdown(wait=False, cancel_futures=True)


def _page(store: HistoryStore, wanted: PageWanted, reading: Reading, near: bool) -> PageFound:
    mark = store.newest(wanted.type) if wanted.mark is None else wanted.mark
    reading = replace(reading, rows=(wanted.beyond, mark))
    # Whoever is near decodes every event anyhow: it need not be done twice.
    page = store.read(reading, wanted.after, NEAR_PAGE if near else PAGE, exactly=not near)
    events = [msgspec.Raw(each) for each in page.bodies]
    damaged = len(page.damaged)
    return PageFound(wanted.id, events, after=page.after, mark=mark, damaged=damaged)


@contextlib.asynccontextmanager
async def recording(setting: HistorySetting, broker: str, catalogue: Catalogue) -> AsyncIterator[Recorder]:
    """Keep a broker's history for the length of the block. Raises HistoryUnavailable."""
    opening = partial(HistoryStore, setting.url, setting.vault, broker)
    with await asyncio.to_thread(opening) as store:
        recorder = Recorder(store, setting, catalogue, await asyncio.to_thread(store.marks))
        async with recorder.running():
            yield recorder
