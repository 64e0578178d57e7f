"""Shared fluents of which it is not known yet whether they hold, since brokers that may know have not said so.

A broker that starts, or is told of a fluent that it did not follow before, has not heard what began earlier. Until
everybody that is trusted with the fluent's types has answered, the fluent neither holds nor does not: what depends on
it is withheld, also under NOT. So that this costs no events where all goes well, nothing is delivered at all in the
first moments: what comes then waits. Invariant: a fluent that is not in doubt is one about which all brokers of
concern have answered, but for those that were given up, which are named in the log.

Of concern are those that are heard, those that were known when this broker last ran, and those that somebody vouches
for. Who is given up, and after how long, is said by the times below.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from pubsub_core.broker import Broker
from pubsub_core.rules import Common
from pubsub_core.trust import Web

SETTLE_SECONDS = 2.5
"""Seconds for which a starting broker listens for unknown brokers: they answer at once."""
HELD_SECONDS = 2.5
"""Seconds for which all delivery is held; after that only what depends on an uncertain fluent."""
UNHEARD_SECONDS = 5.0
"""Seconds after which a vouched-for broker that is not heard is given up."""
PATIENCE_SECONDS = 15.0
"""Seconds after which every broker that has not answered is given up."""

_log = logging.getLogger("authfabric.rules")


class Doubts:
    """Those of one broker. Pure: moments go in, by a clock that never goes back."""

    def __init__(self, broker: Broker, web: Web) -> None:
        self._broker, self._setting = broker, broker.setting
        self._web = web
        self._certain: dict[str, Common] = {}
        self._since: dict[str, float] = {}
        """Since when each fluent in doubt is asked about."""
        self._answered = set[tuple[str, str, Common]]()
        self._greeted: float | None = None
        self._holds = False

    def begin(self) -> None:
        """It was said anew which fluents there are: doubt what is new among them."""
        common = self._broker.observer.common
        self._certain = {name: each for name, each in self._certain.items() if common.get(name) == each}
        self._answered = {key for key in self._answered if common.get(key[1]) == key[2]}
        doubted = common.keys() - self._certain.keys()
        self._since = {name: at for name, at in self._since.items() if name in doubted}
        self._set(frozenset(doubted))
        if doubted - self._since.keys() and not self._holds:
            self._holds = True
            self._broker.hold()

    def answer(self, broker: str, name: str, shared: Common) -> None:
        """A broker has said all that it will say."""
        self._answered.add((broker, name, shared))

    def review(self, now: float) -> None:
        """See what is certain by now; others have been greeted before this is first called."""
        self._greeted = now if self._greeted is None else self._greeted
        common = self._broker.observer.common
        for name in self._doubted():
            since = self._since.setdefault(name, now)
            silent = self._silent(name, common[name], now - self._greeted)
            if silent and now - since >= PATIENCE_SECONDS:
                _log.warning("`%s` is gone by without having heard about it from %s", name, _listed(silent))
                silent = []
            if not silent and now - self._greeted >= SETTLE_SECONDS:
                self._certain[name] = common[name]
        self._set(frozenset(common.keys() - self._certain.keys()))
        if self._holds and all(now - self._since[name] >= HELD_SECONDS for name in self._doubted()):
            self._let_go(now - self._greeted)

    def _let_go(self, there: float) -> None:
        """Nothing waits any more: what depends on something in doubt is withheld."""
        for name in self._doubted():
            silent = _listed(self._silent(name, self._broker.observer.common[name], there))
            _log.warning("what depends on `%s` is withheld: nothing is heard about it from %s", name, silent)
        self._holds = False
        self._broker.release()

    def _silent(self, name: str, shared: Common, there: float) -> list[str]:
        """The brokers of concern that have not answered, when this one has been there for `there` seconds."""
        concerned = set(self._heard(shared))
        if there < PATIENCE_SECONDS:
            concerned.update(self._met(shared))
        if there < UNHEARD_SECONDS:
            concerned |= self._unheard(shared)
        return sorted(each for each in concerned if (each, name, shared) not in self._answered)

    def _met(self, shared: Common) -> Iterator[str]:
        """Those that were there when this broker last ran, or since."""
        presence = self._broker.presence
        for name, (key, *_) in presence.met.items():
            if shared.types and all(presence.trusts(key, type_) for type_ in shared.types):
                yield name

    def _heard(self, shared: Common) -> Iterator[str]:
        return (peer.name for peer in self._broker.peers.values() if _is_of(shared, peer.carries))

    def _unheard(self, shared: Common) -> frozenset[str]:
        """The keys that are trusted with all these types, of brokers that are not here."""
        setting = self._setting
        owners = {each.definition.id: each.definition.owner for each in setting.catalogue}
        trusted = [
            self._web.trusted(id_, owners[id_], setting.now()) for id_ in shared.types if id_ in owners
        ]
        here = {str(setting.identity.public), *(peer.key for peer in self._broker.peers.values())}
        return frozenset.intersection(*trusted) - here if trusted else frozenset()

    def _doubted(self) -> list[str]:
        return sorted(self._setting.rules.context.doubted)

    def _set(self, doubted: frozenset[str]) -> None:
        self._setting.rules.context.doubted = doubted


def _is_of(shared: Common, types: AbstractSet[str]) -> bool:
    """Whether a broker that is trusted with these types may know of a fluent."""
    return bool(shared.types) and shared.types <= types


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{each}`" for each in names)
