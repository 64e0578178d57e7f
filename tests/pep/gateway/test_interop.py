"""The interoperability scenarios of AuthZEN in `examples/authzen`: Todo, API gateway, search, identity provider.

The clients of these scenarios compare answers as whole documents, and send an Authorization header whether or not they
have a token.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path

import httpx
import pytest

from authfabric.processes.launcher import fabric
from pep.sync import LoopThread
from tests.pep.gateway.running import EVALUATION, EVALUATIONS, gateway_process

EXAMPLES = Path(__file__).parents[3] / "examples" / "authzen"
IDENTIFIER = "CiRmZD{}2MTRkMy1jMzlhLTQ3ODEtYjdiZC04Yjk2ZjVhNTEwMGQSBWxvY2Fs"
PEOPLE = {
    "rick@the-citadel.com": IDENTIFIER.format("A"),
    "morty@the-citadel.com": IDENTIFIER.format("E"),
    "summer@the-smiths.com": IDENTIFIER.format("I"),
    "beth@the-smiths.com": IDENTIFIER.format("M"),
    "jerry@the-smiths.com": IDENTIFIER.format("Q"),
}
TODO = {  # for each action, who may do it to a todo of their own, and to one of somebody else's
    "can_read_todos": (PEOPLE, PEOPLE),
    "can_create_todo": (["rick", "morty", "summer"], ["rick", "morty", "summer"]),
    "can_update_todo": (["rick", "morty", "summer"], ["rick"]),
    "can_delete_todo": (["rick", "morty", "summer"], ["rick"]),
}
ROUTES = {
    ("GET", "/users/{userId}"): list(PEOPLE),
    ("GET", "/todos"): list(PEOPLE),
    ("POST", "/todos"): ["rick", "morty", "summer"],
    ("PUT", "/todos/{todoId}"): ["rick", "morty", "summer"],
    ("DELETE", "/todos/{todoId}"): ["rick", "morty", "summer"],
}
DELETES = {
    "alice": [101, 107, 113, 119],
    "bob": [102, 108, 114, 120],
    "carol": [103, 109, 115],
    "dan": [104, 110, 116],
    "erin": [105, 111, 117],
    "felix": [106, 112, 118],
}


def among(who: str, these) -> bool:
    return any(who.startswith(each) for each in these)


@asynccontextmanager
async def serving(name: str, way: str) -> AsyncIterator[str]:
    """The address of an example's gateway, served as its page says: in one process, or in front of a fabric."""
    folder = EXAMPLES / name
    looked_up = ["--attributes", str(folder / "attributes.yaml")]
    options = ["--config", str(folder / "gateway.yaml")]
    async with AsyncExitStack() as stack:
        running = None
        if way == "fabric":
            running = await stack.enter_async_context(fabric(0, policies=folder / "policies"))
            await running.add("pdp-1", extra=looked_up)
        else:
            options += ["--policies", str(folder / "policies"), *looked_up]
        yield str((await stack.enter_async_context(gateway_process(running, *options))).base_url)


def client(name: str, way: str) -> Iterator[httpx.Client]:
    with closing(LoopThread()) as loop:
        context = serving(name, way)
        address = loop.run(context.__aenter__())
        with httpx.Client(base_url=address, headers={"Authorization": "undefined"}, timeout=30.0) as client:
            yield client
        loop.run(context.__aexit__(None, None, None))


@pytest.fixture(scope="module", params=["process", "fabric"])
def todo(request) -> Iterator[httpx.Client]:
    yield from client("todo", request.param)


@pytest.fixture(scope="module", params=["process", "fabric"])
def records(request) -> Iterator[httpx.Client]:
    yield from client("records", request.param)


def answers(client: httpx.Client, body: dict) -> object:
    found = client.post(EVALUATIONS, json=body)
    assert found.status_code == 200, found.text
    return found.json()["evaluations"]


def test_todo_and_the_api_gateway_in_front_of_it(todo):
    for email, identifier in PEOPLE.items():
        other = next(each for each in PEOPLE if each != email)
        for action, expected in TODO.items():
            subject = {"type": "user", "id": identifier}
            todos = [
                {"resource": {"type": "todo", "id": f"todo-{number}", "properties": {"ownerID": owner}}}
                for number, owner in enumerate((email, other))
            ]
            body = {"subject": subject, "action": {"name": action}, "evaluations": todos}
            assert answers(todo, body) == [{"decision": among(email, each)} for each in expected]
            body = {"subject": subject, "action": {"name": action}, **todos[0], "context": {}}
            single = todo.post(EVALUATION, json=body)
            assert single.json() == {"decision": among(email, expected[0])}
        reading = {"subject": {"type": "user", "id": email}, "action": {"name": "can_read_user"}}
        whom = [{"resource": {"type": "user", "id": each}} for each in (identifier, other)]
        assert answers(todo, reading | {"evaluations": whom}) == [{"decision": True}] * 2
        for (method, route), expected in ROUTES.items():
            properties = {"uri": f"https://todo.example.org{route}", "params": None, "ip": ""}
            body = {
                "subject": {"type": "identity", "id": identifier},
                "action": {"name": method},
                "resource": {"type": "route", "id": route, "properties": properties},
                "context": {},
            }
            found = todo.post(EVALUATION, json=body)
            assert found.json() == {"decision": among(email, expected)}, body


def test_a_stranger_and_a_role_that_was_only_claimed_open_nothing(todo):
    claimed = {
        "type": "user",
        "id": "mallory",
        "properties": {"roles": ["admin"], "email": "rick@the-citadel.com"},
    }
    body = {
        "subject": claimed,
        "action": {"name": "can_delete_todo"},
        "resource": {"type": "todo", "id": "1"},
    }
    assert (todo.post(EVALUATION, json=body)).json() == {"decision": False}


def search(client: httpx.Client, what: str, body: dict) -> list[str]:
    found = client.post(f"/access/v1/search/{what}", json=body, headers={"X-Request-ID": "r-1"})
    assert (found.status_code, found.headers["x-request-id"]) == (200, "r-1"), found.text
    kind = {"subject": "user", "resource": "record"}.get(what)
    results = found.json()["results"]
    if kind is not None:
        assert {each["type"] for each in results} <= {kind}
        assert all(list(each) == ["type", "id"] for each in results)
    return [each["name" if kind is None else "id"] for each in results]


def test_search_and_the_claims_that_an_identity_provider_looks_for(records):
    user = {
        "subject": {"type": "user"},
        "action": {"name": "view"},
        "resource": {"type": "record", "id": "104"},
    }
    assert search(records, "subject", user) == ["alice", "dan", "felix"]
    for who, expected in DELETES.items():
        deleting = {"subject": {"type": "user", "id": who}, "action": {"name": "delete"}}
        found = search(records, "resource", deleting | {"resource": {"type": "record", "id": "ignored"}})
        assert found == [str(each) for each in expected]
    nobody = {"subject": {"type": "user", "id": "nobody"}, "action": {"name": "delete"}}
    assert search(records, "resource", nobody | {"resource": {"type": "record"}}) == []
    mine = {"subject": {"type": "user", "id": "alice"}, "resource": {"type": "record", "id": "110"}}
    assert search(records, "action", mine) == ["edit", "view"]


def test_what_is_found_is_what_is_allowed(records):
    numbers = [str(number) for number in range(101, 121)]
    for who in DELETES:
        for action in ("view", "edit", "delete"):
            asked = {"subject": {"type": "user", "id": who}, "action": {"name": action}}
            each = [{"resource": {"type": "record", "id": number}} for number in numbers]
            decided = answers(records, asked | {"evaluations": each})
            allowed = [
                number for number, one in zip(numbers, decided, strict=True) if one == {"decision": True}
            ]
            assert search(records, "resource", asked | {"resource": {"type": "record"}}) == allowed
