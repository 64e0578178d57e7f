"""Fluent subscriptions: the fluents that a broker follows, as PDPs say for each epoch."""

from __future__ import annotations

import logging

from authz import Entity
from pubsub_core.access import CONTEXT, Reach, Rights
from pubsub_core.broker import Broker
from pubsub_core.errors import InvalidObligation
from pubsub_core.rules import read_fluents

OBSERVE = "observe"

_log = logging.getLogger("authfabric.rules")


class FluentSubscription:
    """Has a broker follow the fluents that policies define."""

    def __init__(self, broker: Broker, rights: Rights) -> None:
        self._broker, self._setting = broker, broker.setting
        self._rights = rights
        self._due = True
        self._epoch = 0
        """The policies whose fluents are to be followed, or newer ones."""
        self._answered = -1
        """Those whose fluents are followed."""

    async def reauthorize(self, epoch: int) -> None:
        """Follow the fluents of these policies, or newer ones; while nobody says, what depends on fluents waits."""
        broker = self._broker
        here = Entity(self._setting.name, {"domain": self._setting.domain, "kind": "broker"})
        self._epoch = epoch
        decision = await self._rights.decide(here, Entity(CONTEXT), OBSERVE, epoch)
        self._due = not decision.decided
        if self._due:
            if epoch != self._answered:
                broker.observer.doubt()
            return
        self._answered = epoch
        try:
            rules = read_fluents(decision.obligations if decision.allowed else ())
        except InvalidObligation as error:
            _log.warning("no fluents are followed: %s", error)
            broker.observer.doubt()
            return
        broker.observer.define(rules)
        broker.subscriptions.observe("fluents", broker.observer.shared(), set(broker.observer.causes))

    def reached(self, reaches: Reach) -> bool:
        """Whether after a change of policies other fluents may have to be followed."""
        return reaches(Entity(CONTEXT), OBSERVE)

    def keep(self, epoch: int) -> None:
        """The policies of this epoch define the same fluents as those before."""
        if self._answered == self._epoch:
            self._answered = epoch
        self._epoch = epoch

    async def review(self) -> None:
        """Ask again what nobody answered, and forget what is long past."""
        if self._due:
            await self.reauthorize(self._epoch)
        self._setting.rules.context.fluents.forget(self._broker.observer.since(self._setting.now()))
