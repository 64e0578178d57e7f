"""Attributes from a file, read anew whenever it changes; until the new contents are read, the old ones are served."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path as FilePath
from typing import TypeAlias

import msgspec

from authz.errors import InvalidSyntax
from authz.extras import ExtraMissing
from authz.predicate import Path
from authz.request import Attributes
from pdp.attributes.provider_reader import ProviderText, read_providers
from pdp.attributes.providers import Known, ProviderFailed
from pdp.attributes.table_store import InvalidTable, is_table, read_table, table_files
from pdp.bundle import Root
from pdp.documents import Document

READ_SECONDS = 0.05
"""Maximum seconds a request waits for a changed file before it is answered from the old content."""
BEHIND_SECONDS = 1.0
"""Lifetime in seconds of an answer that may be older than the file."""

_Stamp: TypeAlias = tuple[tuple[int, int, int], ...] | None
"""Time, size and inode of each file; None if there is none."""
_Contents: TypeAlias = Mapping[str, Mapping[str, Attributes]]
"""Attributes by id, for each root."""

_log = logging.getLogger("authfabric.pdp")


def read_provider_file(path: FilePath) -> tuple[ProviderText, ...]:
    """The providers that a file describes. Raises InvalidSyntax or ProviderFailed."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ProviderFailed(str(path), f"it cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ProviderFailed(str(path), "is no text in UTF-8") from None
    return read_providers(text, str(path), path.parent)


class _Text(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    subjects: dict[str, Attributes] = {}
    objects: dict[str, Attributes] = {}
    actions: dict[str, Attributes] = {}
    context: Attributes = {}


class FileProvider:
    """`subjects`, `objects` and `actions` with attributes by id, and the `context`, in YAML or JSON.

    A table holds entities of the one kind that is provided; see `table_store`. What a file says that is broken or gone
    is unavailable: the log and `problem` say why.
    """

    def __init__(
        self, path: FilePath, provides: frozenset[Path], clock: Callable[[], float], lifetime: float
    ) -> None:
        self.name = str(path)
        self.provides = provides
        self.problem = ""
        """Why the file cannot be read; empty if it can."""
        self._path = path
        self._clock = clock
        self._lifetime = lifetime
        self._seen: _Stamp = None
        """Which state of the file was read last, whether or not it could be."""
        self._contents: _Contents | None = None
        self._reading: asyncio.Task[None] | None = None

    async def load(self) -> None:
        """Read the file, so that the first question need not wait for it."""
        await self._refresh()

    async def look_up(self, root: Root, ids: frozenset[str]) -> Mapping[str, Known]:
        asked = self._clock()
        current = await self._refresh()
        if self._contents is None:
            raise ProviderFailed(self.name, self.problem)
        until = asked + (self._lifetime if current else min(self._lifetime, BEHIND_SECONDS))
        known = self._contents[root]
        return {each: Known(known[each], until) for each in ids if each in known}

    async def _refresh(self) -> bool:
        """Read the file if it has changed, and wait for that a moment; at first, as long as it takes.

        Returns whether what is known is what the file says.
        """
        if self._reading is None:
            stamp = await asyncio.to_thread(self._stamp)
            if self._reading is None and (stamp is None or stamp != self._seen):
                self._reading = asyncio.create_task(self._read(stamp))
        if (reading := self._reading) is not None:
            await asyncio.wait([reading], timeout=None if self._contents is None else READ_SECONDS)
        return self._reading is None and not self.problem

    def _stamp(self) -> _Stamp:
        try:
            found = [each.stat() for each in table_files(self._path)]
        except OSError:
            return None
        return tuple((each.st_mtime_ns, each.st_size, each.st_ino) for each in found)

    async def _read(self, stamp: _Stamp) -> None:
        try:
            self._contents = await asyncio.to_thread(_read_contents, self._path, self.provides)
            problem = ""
        except OSError as error:  # what is in the way may go without a change of the file
            problem, stamp = error.strerror or type(error).__name__, None
        except UnicodeDecodeError:
            problem = "is no text in UTF-8"
        except (InvalidSyntax, InvalidTable, ExtraMissing) as error:
            problem = str(error)
        finally:
            self._reading = None
        if problem and problem != self.problem:
            _log.error("the attribute file `%s` cannot be read: %s", self.name, problem)
        elif self.problem and not problem:
            _log.warning("the attribute file `%s` is read again", self.name)
        if problem:  # fail closed: what it said may have been taken back
            self._contents = None
        self.problem, self._seen = problem, stamp


def _read_contents(path: FilePath, provides: frozenset[Path]) -> _Contents:
    if is_table(path):
        root, *others = {each.root for each in provides}
        if others:
            raise InvalidTable(path, "a table holds entities of one kind, and more is to be read from it")
        return {**_NOTHING, root: read_table(path, frozenset(str(each.keys[0]) for each in provides))}
    text = Document.parse(path.read_text(encoding="utf-8"), str(path)).read(_Text)
    return {
        "subject": text.subjects,
        "object": text.objects,
        "action": text.actions,
        "context": {"": text.context},
    }


_NOTHING: _Contents = {"subject": {}, "object": {}, "action": {}, "context": {}}
