"""FastAPI, plain ASGI, Flask and Django: the same promises, kept by a real server of each."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from bus.server import NatsServer
from tests.pep.integrations.services import as_user, assert_denied, assert_unavailable, http_pair

Pair = tuple[httpx.Client, httpx.Client]
MASKED = {"title": "Ann's contract"}
WHOLE = {**MASKED, "salary": 5000}


@pytest.fixture(scope="module", params=["fastapi", "asgi", "flask", "django"])
def framework(request: pytest.FixtureRequest) -> str:
    module = "starlette" if request.param == "asgi" else request.param
    pytest.importorskip(module)
    return request.param


def only(framework: str) -> pytest.MarkDecorator:
    """What only one of the frameworks has."""
    return pytest.mark.parametrize("framework", [framework], indirect=True)


@pytest.fixture(scope="module")
def pair(framework: str, server: NatsServer) -> Iterator[Pair]:
    with http_pair(f"{framework}_service.py", server) as both:
        yield both


def test_who_may_is_served_and_who_may_not_is_told_no_more_than_that(pair: Pair):
    deciding, _ = pair
    allowed = deciding.get("/documents/1", headers=as_user("ann"))
    assert (allowed.status_code, allowed.json()) == (200, WHOLE)
    assert_denied(deciding.get("/documents/1", headers=as_user("mallory")))
    assert_denied(deciding.get("/documents/1"))


def test_an_obligation_is_met_or_the_request_is_denied(pair: Pair, framework: str):
    deciding, _ = pair
    masked = deciding.get("/documents/1", headers=as_user("bob"))
    if framework == "asgi":  # what streams by cannot be masked
        assert_denied(masked)
    else:
        assert (masked.status_code, masked.json()) == (200, MASKED)
    assert_denied(deciding.get("/documents/1", headers=as_user("carol")))


def test_without_a_pdp_nobody_is_let_through(pair: Pair):
    _, failing = pair
    assert_unavailable(failing.get("/documents/1", headers=as_user("ann")))
    assert failing.get("/health").status_code == 200


@pytest.mark.parametrize("path", ["/documents/..%2F..%2Fhr%2F1", "/documents/1%2F2", "/documents/%2e%2e"])
def test_no_path_leads_to_another_object(pair: Pair, framework: str, path: str):
    response = pair[0].get(path, headers=as_user("ann"))
    if framework == "asgi" and path.endswith("1%2F2"):
        return  # its own route says that it is below /documents/
    assert response.status_code in (400, 403, 404)


@only("asgi")
def test_a_request_without_a_route_is_denied(pair: Pair):
    assert_denied(pair[0].get("/secrets", headers=as_user("ann")))


@only("fastapi")
def test_a_dependency_denies_what_it_cannot_fulfil(pair: Pair):
    deciding, failing = pair
    assert deciding.get("/titles/1", headers=as_user("ann")).json() == MASKED
    assert_denied(deciding.get("/titles/1", headers=as_user("mallory")))
    assert_denied(deciding.get("/titles/1", headers=as_user("bob")))
    assert_unavailable(failing.get("/titles/1", headers=as_user("ann")))


@only("django")
@pytest.mark.parametrize("kind", ["async", "class", "rest"])
def test_every_kind_of_view_is_guarded(pair: Pair, kind: str):
    deciding, failing = pair
    assert deciding.get(f"/{kind}/1", headers=as_user("ann")).json() == WHOLE
    assert_denied(deciding.get(f"/{kind}/1", headers=as_user("mallory")))
    bob = deciding.get(f"/{kind}/1", headers=as_user("bob"))
    if kind == "rest":
        assert_denied(bob)
    else:
        assert bob.json() == MASKED
    assert_unavailable(failing.get(f"/{kind}/1", headers=as_user("ann")))
    if kind == "class":  # no action is named for this method
        assert deciding.delete("/class/1", headers=as_user("ann")).status_code == 405
