"""Permissions of the Django REST framework."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from authz.extras import needing
from pep.integrations.core import CONTENT_TYPE, OWN_REFUSALS, RETRY_SECONDS, Of, Refused, own_refusal

with needing("django"):
    from rest_framework.exceptions import APIException
    from rest_framework.permissions import BasePermission
    from rest_framework.response import Response
    from rest_framework.views import exception_handler

if TYPE_CHECKING:
    from pep.integrations.django import Guard


class Denied(APIException):
    """A refusal, in the framework's own form."""

    def __init__(self, refused: Refused) -> None:
        self.problem = refused.decision.as_problem()
        super().__init__(self.problem["detail"])
        self.status_code = refused.problem.status
        if self.status_code == 503:
            self.wait = RETRY_SECONDS


def permission(guard: Guard, action: str | Mapping[str, str], object: Of) -> type[BasePermission]:
    """A permission class that asks before the view."""

    class Asked(BasePermission):
        __authfabric__ = (action, object)

        def has_permission(self, request: Any, view: Any) -> bool:
            wanted = action if isinstance(action, str) else action.get(request.method.lower())
            if wanted is None:
                return False
            try:
                guard.ask(request, wanted, object, view.kwargs, result=False)
            except Refused as refused:
                raise Denied(refused) from None
            return True

    return Asked


def problem_handler(error: Exception, context: Any) -> Response | None:
    """Name it as EXCEPTION_HANDLER: denials are problem+json, and what the fabric does not answer is 503."""
    if isinstance(error, OWN_REFUSALS):
        error = Denied(own_refusal(error))
    response = exception_handler(error, context)
    if isinstance(error, Denied) and response is not None:
        return Response(
            error.problem, error.status_code, headers=dict(response.headers), content_type=CONTENT_TYPE
        )
    return response
