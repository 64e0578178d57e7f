"""Keys in files that are followed while they are used: whoever is written there is trusted within seconds, or no more.

A file that is empty, malformed or gone changes nothing: what was read last goes on to count, and it is said that the
file does not. Otherwise half a file would cut off a fabric, and nobody could mend it by writing the rest.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator

from authz import AuthFabricError, PublicKey

LOOK_SECONDS = 2.0
"""How often files are looked at."""

_log = logging.getLogger("authfabric.trust")


class FollowedKeys(Collection[PublicKey]):
    """The keys as they were last read."""

    def __init__(self, read: Callable[[], frozenset[PublicKey]]) -> None:
        """Raises what `read` does: to begin with, there must be keys."""
        self._read = read
        self._keys = read()
        self.problem = ""
        """Why the keys in force are not those that stand in the file; empty while they are."""

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __iter__(self) -> Iterator[PublicKey]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def look(self) -> bool:
        """Read them anew; says whether they have changed."""
        try:
            keys = self._read()
        except AuthFabricError as error:
            if str(error) != self.problem:
                _log.error("whom to trust cannot be read, and stays as it was: %s", error)
            self.problem = str(error)
            return False
        if self.problem:
            _log.warning("whom to trust can be read again")
        self.problem = ""
        if keys == self._keys:
            return False
        added, removed = keys - self._keys, self._keys - keys
        self._keys = keys
        for word, changed in (("trusted from now on", added), ("trusted no more", removed)):
            for key in sorted(map(str, changed)):
                _log.warning("%s: %s", word, key)
        return True

    async def follow(self, on_change: Callable[[], None]) -> None:
        """Look again and again, and call back whenever they have changed."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if await asyncio.to_thread(self.look):
                on_change()
