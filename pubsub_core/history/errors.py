"""What can go wrong with history."""

from __future__ import annotations

from pubsub_core.errors import EventError

INSTALL = "its database needs packages that are not there: run `pip install 'authfabric[history]'`"


class HistoryUnavailable(EventError):
    """The database cannot be used: `problem` says why."""

    def __init__(self, url: str, problem: str) -> None:
        super().__init__(f"the history at `{url}` cannot be used: {problem}")
        self.url = url
        self.problem = problem


class HistoryDamaged(EventError):
    """An event that was kept does not open: altered, moved, or sealed with another key; or without a row, the chain."""

    def __init__(self, type: str, row: int = 0) -> None:  # noqa: A002 - the word that people use
        what = f"event {row} of type `{type}` does" if row else f"the ends of the chain of type `{type}` do"
        what = what if type else "what says by which key it is sealed does"
        super().__init__(f"{what} not open: altered, or sealed with another key")
        self.type = type
        self.row = row
