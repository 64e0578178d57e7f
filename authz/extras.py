"""Libraries that an extra of the distribution brings: who needs one and has it not is told which extra that is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from authz.errors import AuthFabricError


class ExtraMissing(AuthFabricError, ImportError):
    """A library that is not installed: `name` is the library, `extra` what brings it."""

    def __init__(self, name: str, extra: str) -> None:
        super().__init__(f"`{name}` is not installed: pip install 'authfabric[{extra}]'")
        self.name = name
        self.extra = extra


@contextlib.contextmanager
def needing(extra: str) -> Iterator[None]:
    """Import inside the block what this extra brings. Raises ExtraMissing."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ExtraMissing((error.name or "").partition(".")[0], extra) from error
