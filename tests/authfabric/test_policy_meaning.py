"""Policies that would fail open by what is missing, by seniority or by parameters, asked of a real replica."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from authfabric.processes.launcher import Fabric
from authz import Entity
from pep import UNVERIFIED, Enforcer
from tests.authfabric.pushing import authfabric, released

FOUR_EYES = """
- uid: another-approves
  effect: allow
  targets: {resource_id: /payments/*, action_id: approve}
  rules:
    subject: {%s: {condition: NotEqualsAttribute, ace: resource, path: $.author}}
- uid: guests-read
  effect: allow
  targets: {resource_id: /news, action_id: read}
  rules:
    subject: {$.role: {condition: IsNotIn, values: [banned]}}
- uid: outside
  effect: deny
  targets: {resource_id: /news}
  rules:
    context: {$.ip: {condition: Not, value: {condition: CIDR, value: 10.0.0.0/8}}}
"""
AUDITORS_ONLY = """
- uid: all-read
  effect: allow
  targets: {resource_id: /reports/*, action_id: read}
  rules: {}
- uid: no-others
  effect: deny
  targets: {resource_id: /reports/*}
  rules:
    subject: {$.role: {condition: NotEquals, value: auditor}}
"""
ROLES = """
role admin, editor, doctor(d)
admin > editor
editor |- privilege(edit, "doc/*")
doctor(d) |- privilege(read, "/records/*")
"""
DENIES = """
- uid: editors-only-inside
  effect: deny
  targets: {resource_id: doc/*}
  rules:
    subject: {$.roles: {condition: AnyIn, values: [editor]}}
    context: {$.outside: {condition: IsIn, values: [true]}}
- uid: doctors-not-from-outside
  effect: deny
  targets: {resource_id: /records/*}
  rules:
    subject: {$.roles: {condition: AnyIn, values: [doctor]}}
    context: {$.outside: {condition: IsIn, values: [true]}}
"""


@pytest.fixture
async def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Fabric]:
    """A replica that follows releases."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    async with released(tmp_path / "policies", 1) as running:
        yield running


def folder(path: Path, **texts: str) -> str:
    path.mkdir()
    for name, text in texts.items():
        (path / name.replace("_", ".")).write_text(text)
    return str(path)


async def test_the_author_of_a_payment_does_not_approve_it(running, tmp_path):
    mistaken = folder(tmp_path / "mistaken", p_yaml=FOUR_EYES % "$.id")
    code, found = await authfabric("policy", "check", mistaken)
    assert code == 1
    assert [each["text"] for each in found["findings"]] == [
        '`$.id` is not the id of the subject: write `id` for that, or `$."id"` for an attribute of that name'
    ]
    assert (await authfabric("policy", "push", mistaken, "--url", running.url))[0] == 3
    right = folder(tmp_path / "right", p_yaml=FOUR_EYES % "id")
    assert (await authfabric("policy", "push", right, "--wait", "--url", running.url))[0] == 0
    async with Enforcer.connect(running.url, trust=UNVERIFIED) as pep:
        payment = Entity("/payments/7", {"author": "ann"})
        assert not (await pep.check("ann", payment, "approve")).allowed
        assert (await pep.check("bob", payment, "approve")).allowed
        assert not (await pep.check("bob", "/payments/8", "approve")).allowed  # nobody knows whose it is


async def test_what_is_missing_or_mistyped_fulfils_no_negative_condition(running, tmp_path):
    policies = folder(tmp_path / "negative", p_yaml=FOUR_EYES % "id")
    assert (await authfabric("policy", "push", policies, "--wait", "--url", running.url))[0] == 0
    async with Enforcer.connect(running.url, trust=UNVERIFIED) as pep:
        for role, allowed in (("guest", True), ("banned", False), (["banned"], False), (None, False)):
            subject = Entity("eve", {} if role is None else {"role": role})
            inside = {"ip": "10.1.2.3"}
            assert (await pep.check(subject, "/news", "read", context=inside)).allowed is allowed, role


async def test_whoever_leaves_an_attribute_out_escapes_no_deny(running, tmp_path):
    policies = folder(tmp_path / "negative", p_yaml=FOUR_EYES % "id")
    assert (await authfabric("policy", "push", policies, "--wait", "--url", running.url))[0] == 0
    guest = Entity("eve", {"role": "guest"})
    async with Enforcer.connect(running.url, trust=UNVERIFIED) as pep:
        for context, allowed in (
            ({"ip": "10.1.2.3"}, True),
            ({"ip": "8.8.8.8"}, False),
            ({"ip": 8}, False),
            ({}, False),
        ):
            assert (await pep.check(guest, "/news", "read", context=context)).allowed is allowed, context


async def test_whoever_has_no_role_escapes_no_deny_for_all_but_one(running, tmp_path):
    policies = folder(tmp_path / "negative", p_yaml=AUDITORS_ONLY)
    assert (await authfabric("policy", "push", policies, "--wait", "--url", running.url))[0] == 0
    async with Enforcer.connect(running.url, trust=UNVERIFIED) as pep:
        for role, allowed in (("auditor", True), ("guest", False), (["auditor"], False), (None, False)):
            subject = Entity("eve", {} if role is None else {"role": role})
            assert (await pep.check(subject, "/reports/1", "read")).allowed is allowed, role


async def test_check_names_every_policy_that_means_something_else_than_in_py_abac(tmp_path):
    policies = folder(tmp_path / "negative", p_yaml=FOUR_EYES % "id", q_yaml=DENIES, r_yaml=AUDITORS_ONLY)
    code, found = await authfabric("policy", "check", policies)
    assert code == 0
    assert [(each["policy"], each["level"], each["kind"]) for each in found["findings"]] == [
        ("another-approves", "note", "negative"),
        ("guests-read", "note", "negative"),
        ("no-others", "note", "negative"),
    ]


async def test_a_deny_for_a_role_is_a_deny_for_its_seniors_and_whatever_its_parameters(running, tmp_path):
    policies = folder(tmp_path / "roles", r_oasis=ROLES, p_yaml=DENIES)
    assert (await authfabric("policy", "push", policies, "--wait", "--url", running.url))[0] == 0
    async with Enforcer.connect(running.url, trust=UNVERIFIED) as pep:
        for role, target, action in (
            ("editor", "doc/1", "edit"),
            ("admin", "doc/1", "edit"),
            ("doctor(ann)", "/records/1", "read"),
        ):
            subject = Entity("eve", {"roles": [role]})
            assert (await pep.check(subject, target, action)).allowed, role
            assert not (await pep.check(subject, target, action, context={"outside": True})).allowed, role
