"""Decisions as a column are those of the engine, whatever form requests have."""

from __future__ import annotations

import pytest

from pdp.bundle.bundle_store import read_folder
from spark_eval.analysis.deciding import NoRequests, decide, register_decide

POLICIES = """
- uid: own
  effect: allow
  targets: {action_id: read}
  rules: {subject: {$.dept: {condition: Equals, value: sales}}}
- uid: night
  effect: deny
  targets: {}
  rules: {context: {$.hour: {condition: Lt, value: 6}}}
"""
ROWS = [
    ("ann", "/a", "read", '{"dept": "sales"}', None, 1),
    ("ann", "/a", "read", '{"dept": "sales"}', '{"hour": 3}', 2),
    ("bob", "/a", "read", None, None, 3),
    (None, "/a", "read", None, None, 4),
    ("ann", "/a/../b", "read", '{"dept": "sales"}', None, 5),
    ("ann", "/a", "read", "no JSON", None, 6),
]
EXPECTED = [
    (1, "allow", "policy", ["own"]),
    (2, "deny", "policy", ["night"]),
    (3, "deny", "no-policy", []),
    (4, "deny", "invalid-request", []),
    (5, "deny", "invalid-request", []),
    (6, "deny", "invalid-request", []),
]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "policies.yaml").write_text(POLICIES)
    return tmp_path


@pytest.fixture
def requests(spark):
    columns = (
        "subject string, object string, action string, subject_attributes string, context string, row int"
    )
    return spark.createDataFrame(ROWS, columns)


def test_a_frame_gets_the_effect_the_reason_and_the_policies(requests, folder):
    found = decide(requests, str(folder))
    assert found.columns == [*requests.columns, "effect", "reason", "policies"]
    rows = found.select("row", "effect", "reason", "policies").orderBy("row").collect()
    assert [tuple(each) for each in rows] == EXPECTED


def test_attributes_may_be_structs_and_maps(requests, folder):
    typed = requests.where("row < 3").selectExpr(
        "subject", "object", "action", "row",
        "named_struct('dept', 'sales') as subject_attributes", "map('hour', row * 3) as context",
    )  # fmt: skip
    found = decide(typed, read_folder(folder)).orderBy("row").collect()
    assert [each.effect for each in found] == ["deny", "allow"]


def test_sql_has_a_function_for_it(requests, folder, fresh):
    register_decide(fresh, folder)
    requests.createOrReplaceGlobalTempView("requests")
    query = (
        "select authz_decide(subject, object, action, subject_attributes).effect e from global_temp.requests"
    )
    counted = fresh.sql(f"select e, count(*) n from ({query}) group by e").collect()
    assert {each.e: each.n for each in counted} == {"allow": 2, "deny": 4}


def test_a_frame_that_holds_no_requests_is_refused_with_what_it_lacks(requests, folder):
    with pytest.raises(NoRequests, match="has no `object`"):
        decide(requests.drop("object"), folder)
    with pytest.raises(NoRequests, match="already has `effect`"):
        decide(requests.selectExpr("*", "'allow' as effect"), folder)
