"""The engine in a service's own process: for scripts, tests and small services. No bus, no server, no other process."""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, TypeAlias

from authz import AuthFabricError, Decision, Request
from authz.change import Heartbeat
from authz.explanation import Explanation
from authz.scope import Scope
from bus.audit import AuditFile, AuditWriter
from bus.wire import ScopeQuery, SearchPage, SearchQuery
from pdp.attributes import (
    CachingProvider,
    FileProvider,
    FileText,
    ProviderFailed,
    ProviderText,
    read_provider_file,
)
from pdp.bundle import Bundle, BundleRefused, Entities, File, PolicySet, read_entities, read_folder
from pdp.replica import PolicyPoint
from pep.asking import Strategy, Terms, asking_terms, check_encodable
from pep.errors import SearchRefused
from pep.member_name import member_name
from pep.secondary import Secondary
from sdp_cache import LeaseRules, Recycling, SecondaryPoint

if TYPE_CHECKING:
    from pep.enforcer import Enforcer

Policies: TypeAlias = Path | str | Mapping[str, str]
"""A folder, the text of attribute policies, or texts by the names that their files would have.

A string is the name of a folder unless it could be a text of policies: `folder_named` says which.
"""

INLINE = "policies.yaml"
"""What a text of attribute policies is called in messages."""
_SECONDS = 1.0


def decide_by(packed: bytes) -> Callable[[Request], Decision]:
    """What decides by a bundle, packed, in this process. Raises BundleRefused, InvalidPolicies."""
    return PolicySet.read(Bundle.unpack(packed)).engine().evaluate


class LocalAsker:
    """Decides here and now, by the policies that were last released in this process."""

    def __init__(
        self,
        cache: SecondaryPoint | None = None,
        entities: Entities | None = None,
        providers: Sequence[CachingProvider] = (),
    ) -> None:
        self.usual: Terms = (Strategy.HEDGE, _SECONDS)
        self.epoch = 0
        self.on_applied: list[Callable[[], None]] = []
        """Called when other policies were released."""
        self._cache = cache
        self._entities = entities
        self.providers = providers
        """What looks attributes up, from the next release on."""
        self._point = PolicyPoint(PolicySet())

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The one that asks: it keeps nothing of any loop."""
        return asyncio.get_running_loop()

    def release(self, policies: PolicySet) -> None:
        """Decide by these from now on; nothing that was decided before is recycled."""
        self.epoch += 1
        self._point = PolicyPoint(policies, self.epoch, providers=self.providers, entities=self._entities)
        if self._cache is not None:
            now = time()
            self._cache.restart(self.epoch, self.epoch)
            self._cache.hear(Heartbeat(self.epoch, self.epoch, now), now)
        for each in self.on_applied:
            each()

    def terms(self, seconds: float | None, strategy: Strategy | str | None) -> Terms | None:
        if seconds is None and strategy is None:
            return None
        return asking_terms(strategy or Strategy.HEDGE, _SECONDS if seconds is None else seconds)

    def decide(self, request: Request, terms: Terms | None = None) -> asyncio.Future[Decision]:
        if not request.is_plain():
            check_encodable(request)
        return self.decide_valid(request, terms)

    def decide_valid(self, request: Request, terms: Terms | None = None) -> asyncio.Future[Decision]:
        if not self._point.immediate:
            return self.loop.create_task(self._point.decide(request))
        answer: asyncio.Future[Decision] = self.loop.create_future()
        answer.set_result(self._point.engine.evaluate(request))
        return answer

    async def search(self, query: SearchQuery, seconds: float) -> SearchPage:
        try:
            return await self._point.search(query)
        except AuthFabricError as error:
            raise SearchRefused(str(error)) from None

    async def scope(self, query: ScopeQuery, seconds: float) -> Scope:
        return await self._point.scope(query, time())

    async def explain(self, request: Request, seconds: float) -> Explanation:
        check_encodable(request)
        return await self._point.explain(request)


_FOLDER = re.compile(r"[^\n:#\[\]{}]+")
"""A string that is no text of policies: those have a colon, and what holds none of them is empty, `[]` or a comment."""


def folder_named(policies: Policies) -> Path | None:
    """The folder that is meant, if one is: a Path, or one line without colons, brackets and `#`."""
    if isinstance(policies, str) and _FOLDER.fullmatch(policies):
        return Path(policies)
    return policies if isinstance(policies, Path) else None


def policy_files(policies: Policies) -> Mapping[str, str]:
    """The texts by the names of their files. Raises BundleRefused."""
    if (folder := folder_named(policies)) is not None:
        if not folder.is_dir():
            where = f"`{folder.name}` is no folder in {folder.parent.absolute()}"
            raise BundleRefused(f"{where}: check its name. A text of policies has `uid:` in it")
        return {each.path: each.text for each in read_folder(folder).files}
    assert not isinstance(policies, Path)
    return {INLINE: policies} if isinstance(policies, str) else policies


def read_policies(policies: Policies) -> PolicySet:
    """Raises InvalidPolicies or BundleRefused."""
    files = [File(name, text) for name, text in policy_files(policies).items()]
    if unknown := [each.path for each in files if each.kind is None]:
        raise BundleRefused(
            f"`{unknown[0]}` is no name of policies: end it in .yaml, .json, .oasis or .rules"
        )
    return PolicySet.read(Bundle.of(files))


def file_providers(file: Path) -> Iterator[tuple[ProviderText, FileProvider]]:
    """What looks attributes up in files, as a file says. Raises InvalidSyntax or ProviderFailed."""
    for text in read_provider_file(file):
        if not isinstance(text.origin, FileText):
            raise ProviderFailed(text.origin.name, "in process there is no bus to ask it over; give a `file`")
        yield text, FileProvider(text.origin.path, text.provides, time, text.lifetime)


async def _providers(file: Path) -> list[CachingProvider]:
    """The same, loaded and behind memories."""
    providers: list[CachingProvider] = []
    for text, provider in file_providers(file):
        await provider.load()
        providers.append(CachingProvider(provider, time, text.timeout, text.lifetime, text.under))
    return providers


@contextlib.asynccontextmanager
async def local_enforcer(
    make: type[Enforcer],
    policies: Policies,
    entities: Sequence[Path | str],
    attributes: Path | str | None,
    recycling: Recycling | None,
    audit: Path | str | None,
    name: str,
) -> AsyncIterator[Enforcer]:
    """An Enforcer over an engine of its own, for the length of a block."""
    # A lease says how long releases may go unheard of: those of this process never do.
    point = SecondaryPoint(recycling, LeaseRules(math.inf)) if recycling is not None else None
    providers = [] if attributes is None else await _providers(Path(attributes))
    asker = LocalAsker(point, read_entities(map(Path, entities)), providers)
    asker.release(read_policies(policies))
    pep = make(asker, None if point is None else Secondary(asker, point))
    asker.on_applied.append(pep.released)
    if audit is None:
        yield pep
        return
    async with AuditWriter(AuditFile(Path(audit)), member_name(name)) as pep.audit:
        yield pep
