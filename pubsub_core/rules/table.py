"""Context tables: what rules look up besides events, such as who is on which ward; signed as policies are."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from authz.crypto import Seal
from authz.predicate import Scalar
from pubsub_core.errors import EventError

MAX_TABLE_BYTES = 900_000
"""Maximum bytes of a table: it is one message."""

Rows = dict[str, dict[str, Scalar]]
"""By their keys, as text: columns with values."""


class Table(msgspec.Struct, frozen=True):
    """One version of a table. Of two versions the later counts, whoever brings them in which order."""

    domain: str
    name: str
    version: int
    rows: Rows
    removed: bool = False
    """Whether there is no such table any more: an earlier version does not bring it back."""


TABLE = Seal("context table", Table)


class InvalidTable(EventError):
    """A table that cannot be kept so: `problem` says what would be right."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"the table `{name}` {problem}")
        self.name = name
        self.problem = problem


def changed(rows: Rows, key: str, columns: Mapping[str, Scalar | None]) -> Rows:
    """The rows with one altered: a column without a value is taken out, and so is a row without columns."""
    row = {**rows.get(key, {}), **columns}
    left = {name: value for name, value in row.items() if value is not None}
    others = {each: row for each, row in rows.items() if each != key}
    return {**others, key: left} if left else others
