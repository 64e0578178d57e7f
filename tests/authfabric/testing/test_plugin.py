"""A service's own tests, as its author writes them, run by pytest with the plugin in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from authfabric.testing import Route, TestedFabric, routes_of
from authz import Entity, Reason
from pep import NoResponders, SearchQuery

SERVICE = """
from fastapi import FastAPI
from pep.integrations.fastapi import Guard

guard = Guard(subject=lambda request: request.headers["x-user"])
app = FastAPI(openapi_url=None)

@app.get("/health")
async def health():
    return "ok"

@app.get("/notes/{id}")
@guard("read", "/notes/{id}")
async def read(id: str):
    return {"id": id}

@app.delete("/notes/{id}")
async def delete(id: str):
    return {"deleted": id}
"""
TESTS = """
import pytest
from fastapi.testclient import TestClient
from authfabric.testing import routes_of
from service import app

@pytest.fixture
def client(fabric):
    app.state.pep = fabric.pep
    return TestClient(app)

def get(client, user):
    return client.get("/notes/1", headers={"x-user": user}).status_code

@pytest.mark.policies("policies")
def test_the_folder_counts(client, fabric):
    assert get(client, "ann") == 200
    assert get(client, "bob") == 403
    assert fabric.questions == [("ann", "/notes/1", "read"), ("bob", "/notes/1", "read")]
    assert [each.decision.allowed for each in fabric.asked] == [True, False]

def test_nothing_is_allowed_without_a_policy(client, fabric):
    assert get(client, "ann") == 403
    fabric.grant("ann", "/notes/*", "read")
    assert get(client, "ann") == 200
    fabric.deny("ann", "/notes/1", "read")
    assert get(client, "ann") == 403

def test_a_fabric_that_fails(client, fabric):
    fabric.grant("ann", "/notes/*", "read")
    fabric.fail()
    assert get(client, "ann") == 503
    fabric.recover()
    assert get(client, "ann") == 200

def test_the_matrix(client, fabric):
    fabric.grant("ann", "/notes/*", "read")
    def call(actor, route):
        return client.request(route.method, route.path, headers={"x-user": actor}).status_code
    matrix = fabric.matrix(call, ["ann", "bob"], routes_of(app, id="1"))
    assert [str(each) for each in matrix.allowed("ann")] == ["GET /health", "GET /notes/1", "DELETE /notes/1"]
    matrix.require_protected(public=["GET /health"])
"""
POLICY = """
- uid: ann-reads
  effect: allow
  targets: {subject_id: ann, resource_id: /notes/*, action_id: read}
  rules: {subject: {}, resource: {}, action: {}, context: {}}
"""
REAL = """
async def test_the_whole_fabric(real_fabric):
    async with real_fabric.connect() as pep:
        assert (await pep.check("ann", "/notes/1", "read")).allowed
        assert not (await pep.check("bob", "/notes/1", "read")).allowed
        assert str(await pep.scope("ann", "read", "/notes/", deadline=20)) == "true"
        assert str(await pep.scope("bob", "read", "/notes/", deadline=20)) == "false"
"""
PROVIDED = {
    "policies/bundle.yaml": "name: notes\nprovided: [subject.team, subject.role]\n",
    "policies/notes.yaml": """
- uid: teams-read-their-notes
  effect: allow
  targets: {resource_id: /notes/*, action_id: read}
  rules:
    subject: {$.team: {condition: Equals, value: red}}
    resource: {}
    action: {}
    context: {}
""",
    "attributes.yaml": "- file: people.yaml\n  provides: [subject.team, subject.role]\n",
    "people.yaml": "subjects: {ann: {team: red}, bob: {team: blue}}\n",
}
TESTS_WITH_ATTRIBUTES = """
import pytest
from fastapi.testclient import TestClient
from authfabric.testing import routes_of
from authz import Reason
from service import app

given = pytest.mark.policies("policies", attributes="attributes.yaml")

@pytest.fixture
def client(fabric):
    app.state.pep = fabric.pep
    return TestClient(app)

def get(client, user):
    return client.get("/notes/1", headers={"x-user": user}).status_code

@given
def test_the_file_counts(client, fabric):
    assert [get(client, user) for user in ("ann", "bob", "eve")] == [200, 403, 403]
    assert [each.decision.reason for each in fabric.asked] == [Reason.POLICY, Reason.NO_POLICY, Reason.NO_POLICY]

@given
def test_what_a_test_provides_counts_more_than_the_file(client, fabric):
    assert get(client, "bob") == 403
    fabric.provide("bob", team="red")
    fabric.provide("eve", team="red")
    assert [get(client, user) for user in ("ann", "bob", "eve")] == [200, 200, 200]
    fabric.provide("bob", team="blue")
    assert get(client, "bob") == 403
    assert fabric.sync.check("eve", "/notes/1", "read").allowed

@pytest.mark.policies("policies")
def test_a_test_provides_without_a_file(client, fabric):
    fabric.provide("bob", team="red")
    assert [get(client, user) for user in ("ann", "bob")] == [403, 200]
    fabric.deny("bob", "/notes/1", "read")
    assert get(client, "bob") == 403

@pytest.mark.policies("policies")
def test_what_is_missing_is_named(client, fabric):
    assert get(client, "ann") == 403
    assert "nothing provides `subject.team` here: name a provider" in fabric.asked[-1].decision.detail
    with pytest.raises(ValueError, match="`tame` is not among the `provided`.*role.*team"):
        fabric.provide("bob", tame="red")

@given
def test_a_fabric_that_fails(client, fabric):
    fabric.fail()
    assert get(client, "ann") == 503
    fabric.recover()
    assert get(client, "ann") == 200

@given
def test_the_matrix(client, fabric):
    def call(actor, route):
        return client.request(route.method, route.path, headers={"x-user": actor}).status_code
    matrix = fabric.matrix(call, ["ann", "bob"], routes_of(app, id="1"))
    assert [str(each) for each in matrix.allowed("bob")] == ["GET /health"]
    matrix.require_protected(public=["GET /health"])

@given
async def test_scopes_know_what_is_provided(fabric):
    assert str(await fabric.pep.scope("ann", "read", "/notes/")) == "true"
    assert str(await fabric.pep.scope("bob", "read", "/notes/")) == "false"
    fabric.provide("bob", team="red")
    assert str(await fabric.pep.scope("bob", "read", "/notes/")) == "true"
"""
ROOT = Path(__file__).parents[3]
PLUGIN = "authfabric.testing.plugin"


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{folder}"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", PLUGIN, *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def service(tmp_path: Path) -> Path:
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "notes.yaml").write_text(POLICY)
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    return tmp_path


def test_a_service_is_tested_without_any_server(service: Path):
    pytest.importorskip("fastapi")
    (service / "service.py").write_text(SERVICE)
    (service / "test_service.py").write_text(TESTS)
    done = run(service)
    assert "1 failed, 3 passed" in done.stdout
    assert "nobody protects: DELETE /notes/1" in done.stdout
    (service / "service.py").write_text(
        SERVICE.replace("async def delete", '@guard("delete", "/notes/{id}")\nasync def delete')
    )
    (service / "test_service.py").write_text(TESTS.replace(', "DELETE /notes/1"]', "]"))
    assert "4 passed" in run(service).stdout


def test_provided_attributes_come_from_a_file_and_from_tests(service: Path):
    pytest.importorskip("fastapi")
    for name, text in PROVIDED.items():
        (service / name).write_text(text)
    (service / "service.py").write_text(
        SERVICE.replace("async def delete", '@guard("delete", "/notes/{id}")\nasync def delete')
    )
    (service / "test_service.py").write_text(TESTS_WITH_ATTRIBUTES)
    shown = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/testing.md").read_text(), re.S | re.M)
    for number, text in enumerate(shown):
        (service / f"test_shown_{number}.py").write_text(text)
    done = run(service)
    assert (len(shown), "9 passed" in done.stdout) == (2, True), done.stdout


def test_a_misspelt_folder_is_named(service: Path):
    (service / "test_typo.py").write_text(
        'import pytest\n@pytest.mark.policies("polices")\ndef test(fabric):\n    pass\n'
    )
    assert "`polices` is no folder in" in run(service).stdout


def test_the_whole_fabric_is_one_fixture_away(service: Path):
    (service / "test_real.py").write_text(REAL)
    done = run(service, "-o", "authfabric_policies=policies")
    assert "1 passed" in done.stdout, done.stdout


async def test_the_engine_decides_for_threads_and_coroutines_alike():
    tested = TestedFabric(POLICY)
    assert (await tested.pep.check("ann", "/notes/1", "read")).allowed
    assert tested.sync.check("ann", "/notes/1", "read").allowed
    tested.fail(Reason.TIMEOUT)
    assert tested.sync.check("ann", "/notes/1", "read").reason is Reason.TIMEOUT
    assert len(tested.asked) == 3
    tested.close()


def test_the_routes_of_a_flask_application_are_found():
    flask = pytest.importorskip("flask")
    app = flask.Flask("service")
    app.add_url_rule("/notes/<int:id>", "read", lambda id: "", methods=["GET", "PUT"])
    assert list(map(str, routes_of(app, id=3))) == ["GET /notes/3", "PUT /notes/3"]
    with pytest.raises(KeyError):
        routes_of(app)


def test_the_routes_of_django_are_found():
    pytest.importorskip("django")
    from django.urls import include, path, re_path
    from django.views import View

    class Note(View):
        def get(self, request, id): ...

        def delete(self, request, id): ...

    patterns = [path("health", len), path("api/", include([path("notes/<int:id>", Note.as_view())]))]
    assert list(map(str, routes_of(patterns, id=3))) == [
        "GET /health",
        "GET /api/notes/3",
        "DELETE /api/notes/3",
    ]
    with pytest.raises(ValueError, match="regular expression"):
        routes_of([*patterns, re_path("^x$", len)], id=3)


def test_a_route_that_lists_by_a_scope_or_a_search_is_protected():
    fabric = TestedFabric(POLICY)
    query = SearchQuery("action", Entity("ann"), Entity("/notes/1"))
    asking = {
        "/scope": lambda: fabric.sync.scope("ann", "read", "/notes/"),
        "/search": lambda: fabric.sync.search(query),
        "/open": lambda: None,
    }

    def call(actor: str, route: Route) -> int:
        asking[route.path]()
        return 200

    matrix = fabric.matrix(call, ["ann"], [Route("GET", path) for path in asking])
    assert list(map(str, matrix.unprotected)) == ["GET /open"]
    assert (fabric.scopes, fabric.searches) == ([("ann", "/notes/", "read")], [query])
    fabric.fail()
    with pytest.raises(NoResponders):
        fabric.sync.search(query)
    fabric.close()


def test_a_route_that_ended_before_anybody_was_asked_is_named():
    fabric = TestedFabric()
    answers = {"POST /notes": 422, "GET /old": 404, "GET /login": 401, "DELETE /notes": 403}
    routes = [Route(*each.split()) for each in answers]
    matrix = fabric.matrix(lambda actor, route: answers[str(route)], ["ann", "bob"], routes)
    assert list(map(str, matrix.untold)) == ["POST /notes", "GET /old"]
    matrix.require_protected(public=["POST /notes", "GET /old"])
    named = (
        r"ended before anybody was asked, so call with what they take: POST /notes \(422\), GET /old \(404\)"
    )
    with pytest.raises(AssertionError, match=named):
        matrix.require_protected()


def test_websockets_and_endpoints_that_are_classes_are_routes_too():
    applications = pytest.importorskip("starlette.applications")
    from starlette.endpoints import HTTPEndpoint
    from starlette.routing import Mount, Route, WebSocketRoute

    class Note(HTTPEndpoint):
        def get(self, request): ...

        def delete(self, request): ...

    routes = [Route("/notes/{id}", Note), Mount("/api", routes=[WebSocketRoute("/live", len)])]
    app = applications.Starlette(routes=routes)
    assert list(map(str, routes_of(app, id=3))) == ["DELETE /notes/3", "GET /notes/3", "WEBSOCKET /api/live"]


def test_the_routes_of_what_is_mounted_are_found():
    fastapi = pytest.importorskip("fastapi")
    inner, app = fastapi.FastAPI(openapi_url=None), fastapi.FastAPI(openapi_url=None)
    inner.get("/notes/{id}")(lambda id: id)
    app.mount("/api", inner)
    assert list(map(str, routes_of(app, id=3))) == ["GET /api/notes/3"]


def test_the_routes_of_what_is_included_are_found():
    fastapi = pytest.importorskip("fastapi")
    notes, all_of_them = fastapi.APIRouter(prefix="/notes"), fastapi.APIRouter()
    notes.get("/{id}")(lambda id: id)
    notes.websocket("/live")(len)
    notes.mount(
        "/inner", fastapi.FastAPI(openapi_url=None, routes=[fastapi.routing.APIRoute("/x", lambda: 1)])
    )
    all_of_them.include_router(notes)
    app = fastapi.FastAPI(openapi_url=None)
    app.include_router(all_of_them, prefix="/v1")
    found = ["GET /v1/notes/3", "WEBSOCKET /v1/notes/live", "GET /v1/inner/x"]
    assert list(map(str, routes_of(app, id=3))) == found
