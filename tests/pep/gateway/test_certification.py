"""Every certification vector of AuthZEN 1.0, over real HTTP."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

HERE = Path(__file__).parent
CASES = json.loads((HERE / "vectors.json").read_text())["cases"]
RESPONSE = json.loads((HERE / "evaluation-response.schema.json").read_text())
REQUEST = json.loads((HERE / "evaluation-request.schema.json").read_text())


def name(case: dict) -> str:
    return f"{case['id']} {case.get('variant', '')}".strip()


@pytest.mark.parametrize("case", CASES, ids=name)
def test_vector(case, client):
    for _ in range(case.get("repeat", 1)):
        request = case.get("request")
        if "<next_token" in json.dumps(request):
            first = {**request, "page": {"limit": 1}}
            token = client.post(case["endpoint"], json=first).json()["page"]["next_token"]
            assert token
            request = {**request, "page": {"token": token}}
        body = case["raw_body"] if "raw_body" in case else json.dumps(request)
        headers = {"Content-Type": case.get("content_type", "application/json"), **case.get("headers", {})}
        answer = client.post(case["endpoint"], content=body, headers=headers)
        assert answer.status_code == case["status"], answer.text
        meets(answer.json(), case.get("expect", {}))
        assert {name: answer.headers.get(name) for name in case.get("expect_headers", {})} == case.get(
            "expect_headers", {}
        )
        if case["endpoint"].endswith("/evaluation") and case["status"] == 200:
            jsonschema.validate(request, REQUEST)
            jsonschema.validate(answer.json(), RESPONSE)


def meets(body: dict, expected: dict) -> None:
    if "decision" in expected:
        assert body["decision"] is expected["decision"]
    if "evaluations" in expected:
        assert [{"decision": each["decision"]} for each in body["evaluations"]] == expected["evaluations"]
    if "evaluations_len" in expected:
        assert [type(each["decision"]) for each in body["evaluations"]] == [bool] * expected[
            "evaluations_len"
        ]
    if "results_include" in expected:
        assert all(each in body["results"] for each in expected["results_include"])
    if "results_exact" in expected:
        assert body["results"] == expected["results_exact"]


def test_discovery_names_the_configured_address_whatever_the_host_header_says(client):
    answer = client.get("/.well-known/authzen-configuration", headers={"Host": "evil.example"})
    assert answer.status_code == 200
    found = answer.json()
    assert found["policy_decision_point"] == "https://pdp.example.org"
    assert found["access_evaluation_endpoint"] == "https://pdp.example.org/access/v1/evaluation"
    assert "evil" not in answer.text
