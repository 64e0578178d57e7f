"""What the gateway answers beyond the certification vectors."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

import httpx
import pytest

from authfabric.processes.launcher import fabric
from authfabric.testing import TestedFabric
from bus import Connection
from bus.audit import AuditStore
from pep.gateway import GatewaySettings, gateway
from tests.authfabric.test_audit import take
from tests.pep.gateway.running import EVALUATION, EVALUATIONS, POLICIES, gateway_process, question

SUBJECTS = "/access/v1/search/subject"
NOTES = {"subject": {"type": "user"}, "action": {"name": "read"}, "resource": {"type": "note", "id": "1"}}


def batch(client: httpx.Client, *actions: str, semantic: str | None = None) -> list[bool]:
    body = {**question("bob"), "evaluations": [{"action": {"name": each}} for each in actions]}
    if semantic is not None:
        body["options"] = {"evaluations_semantic": semantic}
    return [each["decision"] for each in client.post(EVALUATIONS, json=body).json()["evaluations"]]


class TestEvaluations:
    def test_all_are_evaluated_unless_told_otherwise(self, client):
        assert batch(client, "read", "write", "read") == [True, False, True]

    def test_deny_on_first_deny_ends_with_it(self, client):
        assert batch(client, "read", "write", "read", semantic="deny_on_first_deny") == [True, False]

    def test_permit_on_first_permit_ends_with_it(self, client):
        assert batch(client, "write", "read", "read", semantic="permit_on_first_permit") == [False, True]

    def test_an_unknown_semantic_is_refused(self, client):
        body = {**question(), "evaluations": [{}], "options": {"evaluations_semantic": "guess"}}
        answer = client.post(EVALUATIONS, json=body)
        assert answer.status_code == 400
        assert "evaluations_semantic" in answer.json()["detail"]

    def test_an_item_replaces_a_default_whole(self, client):
        default = {"type": "user", "id": "bob", "properties": {"role": "admin"}}
        archived = {"type": "record", "id": "record-2", "properties": {"status": "archived"}}
        body = {"subject": default, "action": {"name": "write"}, "resource": archived}
        body["evaluations"] = [{}, {"subject": {"type": "user", "id": "bob"}}]
        decisions = client.post(EVALUATIONS, json=body).json()["evaluations"]
        assert [each["decision"] for each in decisions] == [True, False]

    def test_an_item_that_errs_says_so_and_harms_no_other(self, client):
        body = {**question(), "evaluations": [{"resource": "record-1"}, {}]}
        first, second = client.post(EVALUATIONS, json=body).json()["evaluations"]
        assert (first["decision"], first["context"]["error"]["status"]) == (False, 400)
        assert "resource" in first["context"]["error"]["message"]
        assert second == {"decision": True}

    def test_a_default_that_errs_harms_only_the_items_that_need_it(self, client):
        body = {
            **question(),
            "subject": "alice",
            "evaluations": [{}, {"subject": {"type": "user", "id": "alice"}}],
        }
        first, second = client.post(EVALUATIONS, json=body).json()["evaluations"]
        assert (first["decision"], first["context"]["error"]["status"]) == (False, 400)
        assert "$.subject" in first["context"]["error"]["message"]
        assert second == {"decision": True}

    @pytest.mark.parametrize("odd", ["record-1", None, [], 7])
    def test_an_item_that_is_no_object_errs_alone(self, client, odd):
        body = {**question(), "evaluations": [odd, {}]}
        first, second = client.post(EVALUATIONS, json=body).json()["evaluations"]
        assert first["decision"] is False
        assert first["context"]["error"] == {"status": 400, "message": "an evaluation must be an object"}
        assert second == {"decision": True}

    def test_too_many_are_refused(self, client):
        body = {**question(), "evaluations": [{}] * 1_001}
        assert client.post(EVALUATIONS, json=body).status_code == 400


class TestRefusals:
    def test_a_denial_names_no_policy(self, client):
        archived = {"type": "record", "id": "record-2", "properties": {"status": "archived"}}
        answer = client.post(EVALUATION, json=question(action="write") | {"resource": archived})
        assert answer.json() == {"decision": False}

    def test_an_unknown_type_of_subject_is_denied(self, client):
        answer = client.post(EVALUATION, json=question() | {"subject": {"type": "robot", "id": "alice"}})
        assert (answer.status_code, answer.json()["decision"]) == (200, False)

    @pytest.mark.parametrize("body", [b"[]", b"null", b'"x"', b"{" * 5_000, b"\xff\xfe", b'{"subject": NaN}'])
    def test_what_is_no_request_is_a_bad_request(self, client, body):
        answer = client.post(EVALUATION, content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 400
        assert answer.headers["content-type"] == "application/problem+json"

    def test_an_id_that_no_pdp_could_be_asked_about_is_a_bad_request(self, client):
        answer = client.post(EVALUATION, json=question("x" * 300))
        assert answer.status_code == 400
        assert "subject" in answer.json()["detail"]

    def test_a_body_that_is_too_long_is_refused(self, client):
        assert client.post(EVALUATION, json=question(context={"x": "y" * (1 << 20)})).status_code == 413

    def test_another_method_is_refused(self, client):
        answer = client.get(EVALUATION)
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")

    @pytest.mark.parametrize("odd", [b"r-1", b"a b", b'"<x>", y', "\u00e9".encode(), b"x" * 1_000])
    def test_a_request_id_is_any_string_and_echoed_with_errors_too(self, client, odd):
        for body in (question(), {}):
            answer = client.post(EVALUATION, json=body, headers={b"X-Request-ID": odd})
            assert dict(answer.headers.raw)[b"x-request-id"] == odd


class TestSearch:
    def test_pages_follow_one_another_until_the_token_is_empty(self, client):
        found, token = [], None
        for _ in range(10):
            page = {"limit": 10} | ({"token": token} if token else {})
            body = client.post(SUBJECTS, json=NOTES | {"page": page}).json()
            found += [each["id"] for each in body["results"]]
            token = body["page"]["next_token"]
            if not token:
                break
        assert found == [f"reader-{number:02}" for number in range(25)]

    def test_a_token_of_another_search_is_refused(self, client):
        token = client.post(SUBJECTS, json=NOTES | {"page": {"limit": 1}}).json()["page"]["next_token"]
        other = NOTES | {"resource": {"type": "note", "id": "2"}, "page": {"token": token}}
        answer = client.post(SUBJECTS, json=other)
        assert answer.status_code == 400
        assert "other parameters" in answer.json()["detail"]

    @pytest.mark.parametrize("token", ["x", "AAAA", "%%%"])
    def test_a_made_up_token_is_refused(self, client, token):
        assert client.post(SUBJECTS, json=NOTES | {"page": {"token": token}}).status_code == 400

    def test_resources_of_another_type_are_not_found(self, client):
        body = question("alice") | {"resource": {"type": "recor"}}
        assert client.post("/access/v1/search/resource", json=body).json()["results"] == []


async def test_without_a_pdp_nothing_is_allowed_and_the_client_is_told_when_to_come_back(tmp_path):
    async with (
        fabric(1, policies=POLICIES) as running,
        gateway_process(running, "--anonymous", "--deadline", "1") as client,
    ):
        asked = question(context={"never": "cached"})
        assert (await client.post(EVALUATION, json=asked)).json() == {"decision": True}
        await running.stop()
        answer = await client.post(EVALUATION, json=question(context={"never": "cached before"}))
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        body = question(context={"never": "cached before"}) | {"evaluations": [{}]}
        (item,) = (await client.post(EVALUATIONS, json=body)).json()["evaluations"]
        assert (item["decision"], item["context"]["error"]["status"]) == (False, 503)


@contextlib.asynccontextmanager
async def mounted(base_url: str = "https://example.org/pdp/") -> AsyncIterator[httpx.AsyncClient]:
    """A client of a gateway in this very process."""
    fabric = TestedFabric()
    app = gateway(fabric.pep, GatewaySettings(anonymous=True, base_url=base_url))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
        yield client


@pytest.mark.parametrize("path", ["", "/pdp"])
async def test_discovery_of_a_base_url_with_a_path_is_where_the_standard_puts_it(path):
    async with mounted() as client:
        found = await client.get(f"/.well-known/authzen-configuration{path}")
        assert found.json()["policy_decision_point"] == "https://example.org/pdp/"
        assert found.json()["access_evaluation_endpoint"] == "https://example.org/pdp/access/v1/evaluation"
        assert (await client.get("/.well-known/authzen-configuration/other")).status_code == 404


async def test_a_fault_of_the_gateway_itself_is_an_error_that_tells_nothing(monkeypatch):
    def fail(*_: object) -> None:
        raise ZeroDivisionError("of interest to nobody")

    monkeypatch.setattr("pep.gateway.evaluation.Evaluator.request", fail)
    async with mounted() as client:
        answer = await client.post(EVALUATION, json=question(), headers={"X-Request-ID": "r-1"})
    assert (answer.status_code, answer.headers["x-request-id"]) == (500, "r-1")
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json() == {"title": "Internal Server Error", "status": 500, "detail": "the gateway failed"}


async def test_many_at_once_are_each_answered_rightly(address):
    async with httpx.AsyncClient(base_url=address, timeout=30.0) as client:
        asked = [question("alice" if number % 2 else "bob", "write") for number in range(200)]
        answers = await asyncio.gather(
            *[
                client.post(
                    EVALUATION,
                    content=json.dumps(each),
                    headers={"Content-Type": "application/json; charset=utf-8"},
                )
                for each in asked
            ]
        )
    assert [each.json()["decision"] for each in answers] == [bool(number % 2) for number in range(200)]


async def test_what_the_audit_stream_does_not_take_is_not_answered():
    async with fabric(1, policies=POLICIES, jetstream=True) as running, Connection(running.url) as bus:
        await AuditStore(bus, "default").create()
        options = ("--anonymous", "--audit-wait", "--deadline", "2")
        async with gateway_process(running, *options) as client:
            assert (await client.post(EVALUATION, json=question())).json() == {"decision": True}
            assert len([page async for page in AuditStore(bus, "default").read()]) == 1
            await take(bus, 1)
            answer = await client.post(EVALUATION, json=question())
            assert (answer.status_code, "not-recorded" in answer.text) == (503, True)
