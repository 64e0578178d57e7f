"""Attributes from a file, read anew whenever it changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path as FilePath

import msgspec

from authz.errors import InvalidSyntax
from authz.predicate import Path
from authz.request import Attributes
from pdp.abac.document import Document
from pdp.manifest import Root
from pdp.provider_reader import ProviderText, read_providers
from pdp.providers import Known, ProviderFailed


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
    """`subjects`, `objects` and `actions` with attributes by id, and the `context`, in YAML or JSON."""

    def __init__(
        self, path: FilePath, provides: frozenset[Path], clock: Callable[[], float], lifetime: float
    ) -> None:
        self.name = str(path)
        self.provides = provides
        self._path = path
        self._clock = clock
        self._lifetime = lifetime
        self._stamp: tuple[int, int, int] | None = None
        self._known: dict[str, Mapping[str, Attributes]] = {}

    async def look_up(self, root: Root, ids: frozenset[str]) -> Mapping[str, Known]:
        until = self._clock() + self._lifetime
        await asyncio.to_thread(self._refresh)
        known = self._known[root]
        return {each: Known(known[each], until) for each in ids if each in known}

    def _refresh(self) -> None:
        try:
            status = self._path.stat()
            stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
            if stamp == self._stamp:
                return
            text = Document.parse(self._path.read_text(encoding="utf-8"), str(self._path)).read(_Text)
        except OSError as error:
            raise ProviderFailed(self.name, error.strerror or type(error).__name__) from None
        except UnicodeDecodeError:
            raise ProviderFailed(self.name, "is no text in UTF-8") from None
        except InvalidSyntax as error:
            raise ProviderFailed(self.name, str(error)) from None
        self._known = {
            "subject": text.subjects,
            "object": text.objects,
            "action": text.actions,
            "context": {"": text.context},
        }
        self._stamp = stamp
