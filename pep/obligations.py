"""What an enforcer does besides letting a request through: one handler for each kind of obligation."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from msgspec.structs import replace

from authz import Decision, Request

Handler: TypeAlias = Callable[..., object]
"""`handler(value, result)` returns the result as it may be given; one that comes before takes `(value, request)`."""
AnyHandler = TypeVar("AnyHandler", bound=Handler)

_log = logging.getLogger("authfabric.pep")


@dataclass(frozen=True, slots=True)
class _Registered:
    handler: Handler
    before: bool


class Obligations:
    """Handlers by the name of what they fulfil. `{mask: [salary]}` in a policy is the obligation `mask`."""

    def __init__(self) -> None:
        self._handlers: dict[str, _Registered] = {}

    def obligation(self, name: str, *, before: bool = False) -> Callable[[AnyHandler], AnyHandler]:
        """Register the handler of an obligation: `@pep.obligation("mask")`.

        It is given the obligation's value and the result of the work, and returns the result as it may be given. With
        `before` it is given the value and the request, before the work. It may be a coroutine in async services. If it
        raises, nothing is given.
        """

        def register(handler: AnyHandler) -> AnyHandler:
            self._handlers[name] = _Registered(handler, before)
            return handler

        return register

    def merged(self, other: Obligations) -> Obligations:
        """The handlers of both; of two for one obligation, the other's counts."""
        merged = Obligations()
        merged._handlers = {**self._handlers, **other._handlers}
        return merged

    def plan(self, request: Request, decision: Decision, *, result: bool) -> Plan:
        """How an answer's obligations are met. Where one cannot be, the answer is a denial.

        `result` says whether the result of the work can be handed to handlers.
        """
        if not decision.allowed or not decision.obligations:
            return Plan(request, decision)
        duties: list[tuple[_Registered, object]] = []
        for name, value in _named(decision.obligations):
            registered = self._handlers.get(name)
            if registered is None or not (registered.before or result):
                why = (
                    "has no handler"
                    if registered is None
                    else "needs the result of the work, which is not at hand"
                )
                _log.warning("`%s` is denied: the obligation `%s` %s here", request, name, why)
                denied = replace(decision, allowed=False, detail=f"the obligation `{name}` {why} here")
                return Plan(request, denied)
            duties.append((registered, value))
        return Plan(request, decision, tuple(duties))


@dataclass(frozen=True, slots=True)
class Plan:
    """An answer, and what is to be done with it."""

    request: Request
    decision: Decision
    _duties: tuple[tuple[_Registered, object], ...] = ()

    async def begin(self) -> None:
        """Do what comes before the work."""
        for registered, value in self._duties:
            if registered.before:
                await _awaited(registered.handler(value, self.request))

    async def finish(self, result: object) -> object:
        """The result as it may be given."""
        for registered, value in self._duties:
            if not registered.before:
                result = await _awaited(registered.handler(value, result))
        return result

    def begin_now(self) -> None:
        """The same for threads."""
        for registered, value in self._duties:
            if registered.before:
                _at_once(registered.handler(value, self.request))

    def finish_now(self, result: object) -> object:
        """The same for threads."""
        for registered, value in self._duties:
            if not registered.before:
                result = _at_once(registered.handler(value, result))
        return result


def _named(obligations: tuple[Mapping[str, object], ...]) -> list[tuple[str, object]]:
    return [each for obligation in obligations for each in obligation.items()]


async def _awaited(result: object) -> object:
    return await result if isinstance(result, Awaitable) else result


def _at_once(result: object) -> object:
    if inspect.iscoroutine(result):
        result.close()
        raise TypeError(
            "the handler of an obligation is a coroutine: threaded services need a plain function"
        )
    return result
