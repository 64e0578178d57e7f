"""Flask: a decorator for each view. The enforcer is the one given, or `app.extensions["authfabric"]`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from authz import InvalidRequest
from authz.extras import needing
from authz.request import Attributes
from pep.integrations.core import (
    OWN_REFUSALS,
    Core,
    Name,
    NoEnforcer,
    Of,
    Problem,
    Question,
    Refused,
    invalid,
    own_refusal,
    template,
)
from pep.obligations import Plan
from pep.sync import SyncEnforcer

with needing("flask"):
    import flask

EXTENSION = "authfabric"


class Guard(Core):
    """Guards views: `@guard("read", "/documents/{id}")` below `@app.get(...)`."""

    def __init__(
        self,
        subject: Callable[[flask.Request], Name],
        *,
        context: Callable[[flask.Request], Attributes] | None = None,
        pep: SyncEnforcer | None = None,
    ) -> None:
        """`subject` says who asks: it must rest on what was authenticated. `context` adds facts."""
        super().__init__()
        self._subject = subject
        self._context = context
        self._pep = pep

    def __call__(self, action: str, object: Of) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Guard a view: a template of its object's name, filled from its arguments, or a function of the request."""
        fixed = template(object)

        def guarded(view: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(view)
            def asked(*given: Any, **named: Any) -> Any:
                try:
                    plan = self._ask(action, fixed.fill(named) if fixed else object(flask.request))  # type: ignore[operator]
                except InvalidRequest as error:
                    return _response(invalid(error).problem)
                except Refused as refused:
                    return _response(refused.problem)
                try:
                    result = flask.current_app.ensure_sync(view)(*given, **named)
                except OWN_REFUSALS as error:
                    return _response(own_refusal(error).problem)
                return plan.finish_now(result)

            asked.__authfabric__ = (action, object)  # type: ignore[attr-defined]
            return asked

        return guarded

    def _ask(self, action: str, thing: Name) -> Plan:
        """Raises Refused, InvalidRequest or NoEnforcer."""
        request = flask.request
        question: Question = (self._subject(request), thing, action)
        if self._context is not None:
            question = (*question[:3], self._context(request))  # type: ignore[index]
        pep = self._pep or flask.current_app.extensions.get(EXTENSION)
        if pep is None:
            raise NoEnforcer(f"app.extensions[{EXTENSION!r}]")
        return self.permit_now(pep, question, result=True)


def _response(problem: Problem) -> flask.Response:
    return flask.Response(problem.body, problem.status, dict(problem.headers))
