"""Attributes that a test provides, over those that files do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path as FilePath
from time import time

from authz.predicate import Path
from pdp.attributes import CachingProvider, FileProvider, Known
from pdp.bundle import Root
from pep.local import file_providers

_PATIENCE = 30.0
"""Seconds for the first reading of a file, on a machine that is busy with other tests."""
_LIFETIME = 60.0


class GivenAttributes:
    """Attributes by the name of the entity, and providers that know them."""

    def __init__(self, file: FilePath | None) -> None:
        """`file` is one as `--attributes` takes."""
        self._file = file
        self._given: dict[str, dict[str, object]] = {}

    def give(self, name: str, attributes: Mapping[str, object]) -> None:
        self._given.setdefault(name, {}).update(attributes)

    def providers(self, declared: frozenset[Path]) -> list[CachingProvider]:
        """What policies that declare these attributes as provided look them up with.

        Once a test has given one, all are known: whoever was not given an attribute has none. Raises InvalidSyntax,
        ProviderFailed.
        """
        providers = [
            CachingProvider(
                _Given(self._given, text.provides, file), time, _PATIENCE, text.lifetime, text.under
            )
            for text, file in (file_providers(self._file) if self._file else ())
        ]
        if self._given:
            providers.append(CachingProvider(_Given(self._given, declared), time, _PATIENCE, _LIFETIME))
        return providers


class _Given:
    """What was given, and what a file says of the rest."""

    name = "the test"

    def __init__(
        self,
        given: Mapping[str, Mapping[str, object]],
        provides: frozenset[Path],
        file: FileProvider | None = None,
    ) -> None:
        self.provides = provides
        self._given = given
        self._file = file

    @property
    def problem(self) -> str:
        return "" if self._file is None else self._file.problem

    async def look_up(self, root: Root, ids: frozenset[str]) -> Mapping[str, Known]:
        found = {} if self._file is None else dict(await self._file.look_up(root, ids))
        for each in ids & self._given.keys():
            known = found.get(each, Known({}, time() + _LIFETIME))
            found[each] = Known({**known.attributes, **self._given[each]}, known.until)
        return found
