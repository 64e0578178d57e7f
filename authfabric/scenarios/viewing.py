"""Who saw what: subscribers that note everything they get, and how it is shown for each event."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pubsub_core.client import Delivered, Publisher, Subscriber

Values: TypeAlias = Mapping[str, object]
WAIT_SECONDS = 30.0
WARM_UP_SECONDS = 0.05


@dataclass
class Viewer:
    """A subscriber, and all that it has been shown."""

    name: str
    subscriber: Subscriber
    seen: list[Delivered] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    _shown: int = 0

    async def watch(self) -> None:
        async for event in self.subscriber:
            if isinstance(event, Delivered):
                self.seen.append(event)
                self.changed.set()

    def news(self) -> list[Values]:
        """What was seen since this was last asked."""
        seen, self._shown = self.seen[self._shown :], len(self.seen)
        return [event.attributes for event in seen]

    async def until(self, shown: Callable[[Delivered], bool]) -> None:
        """Return when something like this was seen."""
        async with asyncio.timeout(WAIT_SECONDS):
            while not any(map(shown, self.seen)):
                self.changed.clear()
                await self.changed.wait()


@contextlib.asynccontextmanager
async def watching(viewers: Sequence[Viewer]) -> AsyncIterator[None]:
    """Let them watch for the length of a block."""
    tasks = [asyncio.create_task(each.watch()) for each in viewers]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def warm_up(
    publisher: Publisher,
    viewers: Sequence[Viewer],
    values: Values,
    name: str,
    before: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Publish something that everybody may see, until everybody has: then all brokers know what is wanted.

    `name` is the attribute by which it is recognised; `before` is done each time before it is published.
    """

    def shown(event: Delivered) -> bool:
        return event.attributes.get(name) == values[name]

    waiting = asyncio.gather(*(viewer.until(shown) for viewer in viewers))
    while not waiting.done():
        if before is not None:
            await before()
        await publisher.publish(**values)
        await publisher.flush()
        await asyncio.wait([waiting], timeout=WARM_UP_SECONDS)
    await waiting


@dataclass(frozen=True)
class Outcome:
    """What was published, and what of it each viewer saw: one entry for each event, None if it was not seen."""

    title: str
    published: tuple[Values, ...]
    seen: Mapping[str, tuple[Values | None, ...]]
    note: str = ""

    def picture(self) -> Group:
        """Each event, and below it what is different in what each viewer saw of it; last, what nobody saw."""
        note = [Text(self.note, "italic")] if self.note else []
        rows = list(zip(self.published, *self.seen.values(), strict=True))
        shown = [row for row in rows if any(each is not None for each in row[1:])]
        hidden = [Padding(Text(_pairs(row[0]), "dim"), (0, 0, 0, 2)) for row in rows if row not in shown]
        unseen: list[RenderableType] = [Text("\nNobody is shown now:"), *hidden] if hidden else []
        events = [each for row in shown for each in self._event(*row)]
        return Group(Text(f"\n{self.title}", "bold"), *note, *events, *unseen)

    def _event(self, values: Values, *seen: Values | None) -> tuple[RenderableType, RenderableType]:
        below = Table.grid("", "", padding=(0, 2, 0, 0))
        for name, each in zip(self.seen, seen, strict=True):
            below.add_row(f"  {name}", _difference(values, each))
        return Text(f"\n{_pairs(values)}", "cyan"), below


def outcome(
    title: str, published: Sequence[Values], viewers: Sequence[Viewer], key: str, note: str = ""
) -> Outcome:
    """Put together what was seen; events are recognised by one attribute, which every viewer may see."""
    return side_by_side(title, published, {each.name: each.news() for each in viewers}, key, note)


def side_by_side(
    title: str, published: Sequence[Values], seen: Mapping[str, Sequence[Values]], key: str, note: str = ""
) -> Outcome:
    """For each event that was published, what each way of looking showed of it; of several, the last."""
    rows = {name: {values.get(key): values for values in found} for name, found in seen.items()}
    keys = [values[key] for values in published]
    return Outcome(
        title, tuple(published), {name: tuple(map(found.get, keys)) for name, found in rows.items()}, note
    )


def _difference(published: Values, seen: Values | None) -> Text:
    """What a viewer saw, told by what is left out and what is other than it was published."""
    if seen is None:
        return Text("nothing", "dim")
    other = {name: value for name, value in seen.items() if published.get(name) != value}
    left_out = [name for name in published if name not in seen]
    much = f"all but {', '.join(left_out)}" if left_out else "all of it"
    return Text(f"{much}; {_pairs(other)}" if other else much, "yellow" if other or left_out else "green")


def _pairs(values: Values) -> str:
    return ", ".join(f"{name} {_text(value)}" for name, value in values.items())


def _text(value: object) -> str:
    """A value, and a point on the map by its coordinates."""
    return "/".join(map(str, value.values())) if isinstance(value, Mapping) else str(value)
