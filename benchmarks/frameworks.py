"""What protecting a service costs: a decorator on a route, a list from a database, a fixture of a test."""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import casbin
from fastapi import FastAPI
from fastapi_casbin_auth import CasbinMiddleware
from sqlalchemy import Column, Connection, Index, MetaData, String, Table, create_engine, insert, select
from starlette.authentication import AuthCredentials, AuthenticationBackend, SimpleUser
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import HTTPConnection

from authfabric.files import DEFAULT_POLICIES
from authfabric.testing import TestedFabric
from authz import Entity, Request
from benchmarks.harness import at_least, at_most
from pep import Enforcer
from pep.integrations.fastapi import Guard

PROMISES = {
    "decorator_us": at_most(60),
    "casbin_share": at_most(0.2),
    "scope_gain": at_least(100),
    "fixture_ms": at_most(20),
}

POLICIES = 100
"""Policies of each kind of authorization: a subject and the objects that it may read."""
ROUNDS = 7
CALLS = 1_500
"""Requests in one round."""
ROWS = 1_000_000
ASKED = 20_000
"""Rows that are asked about one by one."""
FIXTURES = 50

_POLICY = """
- uid: p{0}
  effect: allow
  targets: {{subject_id: u{0}, resource_id: /notes/{0}*, action_id: read}}
  rules: {{}}
"""
_OWNERS = """
- uid: owners-read
  effect: allow
  targets: {resource_id: /notes/*, action_id: read}
  rules: {resource: {$.owner: {condition: EqualsAttribute, ace: subject, path: id}}}
"""
_MODEL = """
[request_definition]
r = sub, obj, act
[policy_definition]
p = sub, obj, act
[policy_effect]
e = some(where (p.eft == allow))
[matchers]
m = r.sub == p.sub && keyMatch(r.obj, p.obj) && r.act == p.act
"""
App = Callable[[dict[str, Any], Any, Any], Awaitable[None]]


async def measure() -> dict[str, float]:
    """All of them."""
    return {**await routes(), **await lists(), "fixture_ms": fixture()}


async def routes() -> dict[str, float]:
    """A request to a FastAPI route: bare, with the decorator, and behind casbin's middleware; no server in between."""
    text = "".join(_POLICY.format(number) for number in range(POLICIES))
    async with Enforcer.local(text) as pep:
        apps = {"bare": _bare(), "guarded": _guarded(pep), "casbin": _casbin()}
        best: dict[str, float] = {}
        for _ in range(ROUNDS):
            for name, app in apps.items():
                best[name] = min(best.get(name, 1.0), await _each(app))
    decorator = (best["guarded"] - best["bare"]) * 1e6
    middleware = (best["casbin"] - best["bare"]) * 1e6
    return {"decorator_us": decorator, "casbin_us": middleware, "casbin_share": decorator / middleware}


def _bare() -> Any:
    app = FastAPI()

    @app.get("/notes/{id}")
    async def read(id: str) -> str:
        return id

    return app


def _guarded(pep: Enforcer) -> Any:
    app, guard = FastAPI(), Guard(subject=lambda request: request.headers["x-user"])
    app.state.pep = pep

    @app.get("/notes/{id}")
    @guard("read", "/notes/{id}")
    async def read(id: str) -> str:
        return id

    return app


class _Header(AuthenticationBackend):
    async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, SimpleUser]:
        return AuthCredentials(), SimpleUser(conn.headers["x-user"])


def _casbin() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        model, rules = Path(folder) / "model.conf", Path(folder) / "policy.csv"
        model.write_text(_MODEL)
        rules.write_text("\n".join(f"p, u{number}, /notes/{number}*, GET" for number in range(POLICIES)))
        enforcer = casbin.Enforcer(str(model), str(rules))
    app = _bare()
    app.add_middleware(CasbinMiddleware, enforcer=enforcer)
    app.add_middleware(AuthenticationMiddleware, backend=_Header())
    return app


async def _each(app: App) -> float:
    """Seconds a request takes."""
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    start = perf_counter()
    for number in range(CALLS):
        await app(_scope(number % POLICIES), receive, send)
    seconds = (perf_counter() - start) / CALLS
    assert all(each["status"] == 200 for each in sent if each["type"] == "http.response.start")
    return seconds


def _scope(number: int) -> dict[str, Any]:
    path = f"/notes/{number}"
    return {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
        "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "",
        "headers": [(b"x-user", f"u{number}".encode())], "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
    }  # fmt: skip


async def lists() -> dict[str, float]:
    """Rows a second that are sorted out: by one query over all, with an index on the owner and without; and one by one.

    Nothing is learned from the questions: that would cost more than it saves where each is asked once.
    """
    notes = Table("notes", MetaData(), Column("key", String, primary_key=True), Column("owner", String))
    engine = create_engine("sqlite://")
    notes.create(engine)
    with engine.begin() as connection:
        rows = [{"key": str(number), "owner": f"u{number % 100}"} for number in range(ROWS)]
        connection.execute(insert(notes), rows)
        async with Enforcer.local(_OWNERS, recycling=None) as pep:
            scanned = max([await _scoped(pep, connection, notes) for _ in range(3)])
            Index("by_owner", notes.c.owner).create(connection)
            scoped = max([await _scoped(pep, connection, notes) for _ in range(3)])
            asked = max([await _asked(pep, rows[:ASKED]) for _ in range(3)])
    return {
        "scope_gain": scoped / asked,
        "scope_scan_gain": scanned / asked,
        "scope_rows_per_s": scoped,
        "asked_rows_per_s": asked,
    }


async def _scoped(pep: Enforcer, connection: Connection, notes: Table) -> float:
    start = perf_counter()
    scope = await pep.scope("u7", "read", "/notes/")
    where = scope.where({"id": notes.c.key, "owner": notes.c.owner}, "sqlite")
    found = connection.execute(select(notes.c.key).where(where)).all()
    assert len(found) == ROWS // 100
    return ROWS / (perf_counter() - start)


async def _asked(pep: Enforcer, rows: list[dict[str, str]]) -> float:
    start = perf_counter()
    things = [Entity(f"/notes/{row['key']}", {"owner": row["owner"]}) for row in rows]
    decisions = await pep.check_many([Request.of("u7", each, "read") for each in things])
    assert sum(each.allowed for each in decisions) == len(rows) // 100
    return len(rows) / (perf_counter() - start)


def fixture() -> float:
    """Milliseconds until a test's own engine has its policies."""
    took = []
    for _ in range(FIXTURES):
        start = perf_counter()
        TestedFabric(DEFAULT_POLICIES).close()
        took.append((perf_counter() - start) * 1e3)
    return median(took)
