"""A transactional outbox: an event is a row, written in the transaction of what it tells of: both commit, or neither.

Invariants: an event gets its number from its row, and its time and its companions when it is put into a batch; a batch
is never altered, so that publishing it again is publishing the same events, which everybody recognises.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Engine,
    Float,
    Integer,
    MetaData,
    Table,
    Text,
    delete,
    insert,
    select,
    update,
)
from sqlalchemy.orm import Session

MAX_BATCH = 256
"""Maximum events in a batch."""


class Entry(NamedTuple):
    """An event in the outbox."""

    id: int
    type: str
    values: dict[str, object]
    time: float


class Outbox:
    """`Outbox(metadata)` beside your own tables; then `outbox.add(session, "shop.Order", number=7)`."""

    def __init__(self, metadata: MetaData | None = None, name: str = "event_outbox") -> None:
        self.table = Table(
            name,
            metadata if metadata is not None else MetaData(),
            Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
            Column("type", Text, nullable=False),
            Column("values", Text, nullable=False),
            Column("batch", BigInteger, index=True),
            Column("time", Float),
            sqlite_autoincrement=True,  # no number is given twice, although rows go
        )

    def create(self, engine: Engine) -> None:
        """Create the table unless it is there."""
        self.table.create(engine, checkfirst=True)

    def add(self, within: Connection | Session, type: str, /, **values: object) -> None:  # noqa: A002
        """Have an event published if this transaction commits. Raises TypeError for a value that is no JSON."""
        within.execute(insert(self.table).values(type=type, values=json.dumps(values)))

    def next_batch(self, engine: Engine, now: float, most: int = MAX_BATCH) -> Sequence[Entry]:
        """The batch that is to be published next: one that was begun, or the oldest rows, which become one."""
        columns = self.table.c
        with engine.begin() as connection:
            begun = connection.execute(
                select(columns.batch).where(columns.batch.is_not(None)).order_by(columns.batch).limit(1)
            ).scalar()
            if begun is None:
                waiting = select(columns.id).order_by(columns.id).limit(most).with_for_update()
                rows = [row.id for row in connection.execute(waiting)]
                if not rows:
                    return ()
                begun = rows[0]
                connection.execute(
                    update(self.table).where(columns.id.in_(rows)).values(batch=begun, time=now)
                )
            found = connection.execute(
                select(columns.id, columns.type, columns["values"], columns.time)
                .where(columns.batch == begun)
                .order_by(columns.id)
            )
            return [Entry(row.id, row.type, _values(row[2]), row.time) for row in found]

    def remove(self, engine: Engine, batch: Sequence[Entry]) -> None:
        """These are published."""
        with engine.begin() as connection:
            connection.execute(delete(self.table).where(self.table.c.id.in_([each.id for each in batch])))

    def count(self, engine: Engine) -> int:
        """How many events are not known to be published."""
        with engine.connect() as connection:
            return len(connection.execute(select(self.table.c.id)).all())


def _values(text: str) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(text)
    return values
