"""Django in one file: a view, a class-based view, an async view and one of the REST framework.

`python examples/services/django_service.py 8000`, then `curl -H 'X-User: ann' localhost:8000/documents/1`.
"""

import sys
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path
from django.views import View
from documents import DOCUMENTS, mask, sync_enforcer

from pep import SyncEnforcer
from pep.integrations.django import Guard, GuardedView

settings.configure(
    ALLOWED_HOSTS=["127.0.0.1", "localhost"],
    ROOT_URLCONF=__name__,
    INSTALLED_APPS=["rest_framework"],
    REST_FRAMEWORK={
        "EXCEPTION_HANDLER": "pep.integrations.rest_framework.problem_handler",
        "UNAUTHENTICATED_USER": None,
        "DEFAULT_AUTHENTICATION_CLASSES": [],
    },
)
django.setup()

from rest_framework.decorators import api_view, permission_classes  # noqa: E402
from rest_framework.response import Response  # noqa: E402

running: dict[str, SyncEnforcer] = {}
# Without a function the subject is the user that is logged in. A header is for trying out.
guard = Guard(lambda: running["pep"], lambda request: request.headers.get("X-User", "nobody"))


@guard.obligation("mask")
def mask_response(fields: list[str], response: Any) -> Any:
    """The result of a view is a response: leave the fields out of what it says."""
    import json

    return JsonResponse(mask(fields, json.loads(response.content)))


def health(request: HttpRequest) -> HttpResponse:
    return HttpResponse("ok")


@guard("read", "/documents/{id}")
def read(request: HttpRequest, id: str) -> HttpResponse:
    return JsonResponse(DOCUMENTS.get(id, {}))


@guard("read", "/documents/{id}")
async def read_async(request: HttpRequest, id: str) -> HttpResponse:
    return JsonResponse(DOCUMENTS.get(id, {}))


class Document(GuardedView, View):
    guard = guard
    object = "/documents/{id}"
    actions = {"get": "read"}

    def get(self, request: HttpRequest, id: str) -> HttpResponse:
        return JsonResponse(DOCUMENTS.get(id, {}))

    def delete(self, request: HttpRequest, id: str) -> HttpResponse:
        return JsonResponse({"deleted": id})


@api_view(["GET"])
@permission_classes([guard.permission("read", "/documents/{id}")])
def read_rest(request: Any, id: str) -> Response:
    return Response(DOCUMENTS.get(id, {}))


urlpatterns = [
    path("health", health),
    path("documents/<str:id>", read),
    path("async/<str:id>", read_async),
    path("class/<str:id>", Document.as_view()),
    path("rest/<str:id>", read_rest),
]


class Quiet(WSGIRequestHandler):
    def log_message(self, *args: Any) -> None:
        """Nothing."""


if __name__ == "__main__":
    with sync_enforcer() as running["pep"]:
        make_server(
            "127.0.0.1", int(sys.argv[1]), get_wsgi_application(), handler_class=Quiet
        ).serve_forever()
