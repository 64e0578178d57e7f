"""Django: a decorator for views, a mixin for class-based views, and permissions of the REST framework."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar

from authz import InvalidRequest
from authz.extras import needing
from authz.request import Attributes
from pep.integrations.core import (
    OWN_REFUSALS,
    Core,
    Name,
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

with needing("django"):
    from asgiref.sync import iscoroutinefunction, sync_to_async
    from django.http import HttpRequest, HttpResponse
    from django.views import View


class Guard(Core):
    """Guards views: `@guard("read", "/documents/{id}")`. The SyncEnforcer serves views of both kinds."""

    def __init__(
        self,
        pep: SyncEnforcer | Callable[[], SyncEnforcer],
        subject: Callable[[HttpRequest], Name] = lambda request: request.user.get_username(),
        *,
        context: Callable[[HttpRequest], Attributes] | None = None,
    ) -> None:
        """`subject` says who asks, by default the user that is logged in; somebody without a name is refused."""
        super().__init__()
        self._pep = pep
        self._subject = subject
        self._context = context

    def __call__(self, action: str, object: Of) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Guard a view: a template of its object's name, filled from its arguments, or a function of the request."""

        def guarded(view: Callable[..., Any]) -> Callable[..., Any]:
            make = self.async_view if iscoroutinefunction(view) else self.view
            return make(action, object, view)

        return guarded

    def view(self, action: str, object: Of, view: Callable[..., Any]) -> Callable[..., Any]:
        """The guarded view."""

        @functools.wraps(view)
        def asked(request: HttpRequest, *given: Any, **named: Any) -> Any:
            try:
                plan = self.ask(request, action, object, named, result=True)
            except Refused as refused:
                return _response(refused.problem)
            try:
                result = view(request, *given, **named)
            except OWN_REFUSALS as error:
                return _response(own_refusal(error).problem)
            return plan.finish_now(result)

        asked.__authfabric__ = (action, object)  # type: ignore[attr-defined]
        return asked

    def async_view(self, action: str, object: Of, view: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
        """The guarded view, where it is a coroutine."""

        @functools.wraps(view)
        async def asked(request: HttpRequest, *given: Any, **named: Any) -> Any:
            try:
                plan = await sync_to_async(self.ask)(request, action, object, named, result=True)
            except Refused as refused:
                return _response(refused.problem)
            try:
                result = await view(request, *given, **named)
            except OWN_REFUSALS as error:
                return _response(own_refusal(error).problem)
            return await plan.finish(result)

        asked.__authfabric__ = (action, object)  # type: ignore[attr-defined]
        return asked

    def ask(
        self, request: HttpRequest, action: str, object: Of, named: Mapping[str, object], *, result: bool
    ) -> Plan:
        """Raises Refused."""
        fixed = template(object)
        try:
            thing = fixed.fill(named) if fixed else object(request)  # type: ignore[operator]
            question: Question = (self._subject(request), thing, action)
            if self._context is not None:
                question = (*question[:3], self._context(request))  # type: ignore[index]
        except InvalidRequest as error:
            raise invalid(error) from None
        pep = self._pep if isinstance(self._pep, SyncEnforcer) else self._pep()
        return self.permit_now(pep, question, result=result)

    def permission(self, action: str | Mapping[str, str], object: Of) -> type:
        """A permission class of the REST framework: one action, or one for each HTTP method.

        It does not see what the view returns, so an obligation that needs the result is a denial.
        """
        from pep.integrations.rest_framework import permission

        return permission(self, action, object)


class GuardedView:
    """A mixin for class-based views, before `View`: set `guard`, `object`, and an action for each HTTP method.

    A method without an action is refused. Behind `View` it would never be asked, which is a TypeError.
    """

    guard: ClassVar[Guard]
    object: ClassVar[Of]
    actions: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        order = cls.__mro__
        if View in order and order.index(View) < order.index(GuardedView):
            raise TypeError(f"`{cls.__name__}` must name GuardedView before View, or nobody is asked")

    def dispatch(self, request: HttpRequest, *given: Any, **named: Any) -> Any:
        """Ask, then go on."""
        waits = getattr(self, "view_is_async", False)
        action = self.actions.get((request.method or "").lower())
        if action is None:
            refusal = HttpResponse(status=405)
            return sync_to_async(lambda: refusal)() if waits else refusal
        of = inspect.getattr_static(self, "object")  # a function is no method here
        view = super().dispatch  # type: ignore[misc]
        guarded = self.guard.async_view if waits else self.guard.view
        return guarded(action, of, view)(request, *given, **named)


def _response(problem: Problem) -> HttpResponse:
    return HttpResponse(problem.body, status=problem.status, headers=dict(problem.headers))
