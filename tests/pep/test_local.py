"""The engine in a service's own process answers as the fabric does, with its caches and its audit."""

from __future__ import annotations

from pathlib import Path

import pytest

from authfabric.files.settings import DEFAULT_POLICIES
from authz import Decision, Entity, Identity, InvalidRequest, Reason, Request
from bus import NatsServer
from bus.audit import AuditFile, ChainVerifier, read_head, read_record
from bus.wire import SearchQuery
from pdp import BundleRefused, InvalidPolicies
from pdp.attributes import ProviderFailed
from pdp.engine import Engine
from pep import AccessDenied, Enforcer, NotOnBus, SyncEnforcer
from pep.errors import SearchRefused
from pep.local import read_policies
from pep.metrics import EnforcerMetrics
from tests.pep.fabric import asking, serving

READERS = """
- uid: ann-reads
  effect: allow
  targets: {subject_id: ann, resource_id: /notes/*, action_id: read}
  rules: {subject: {}, resource: {}, action: {}, context: {}}
"""
EXPLAINERS = """
- uid: bob-sees-why
  effect: allow
  targets: {subject_id: bob, resource_id: /notes/*, action_id: explain}
  rules: {subject: {}, resource: {}, action: {}, context: {}}
"""
QUESTIONS = [
    Request.of("alice", "/sales/q1", "read"),
    Request.of("bob", "/sales/q1", "read"),
    Request.of(Entity("bob", {"role": "manager"}), Entity("/sales/q1", {"amount": 5}), "approve"),
    Request.of(
        Entity("bob", {"role": "manager"}), Entity("/sales/q1", {"amount": 5, "state": "frozen"}), "approve"
    ),
    Request.of("zoe", "/public/menu", "read", {"hour": 3}),
]


def outcome(decision: Decision) -> tuple[object, ...]:
    return decision.allowed, decision.reason, decision.policies, decision.obligations


async def test_it_decides_as_the_fabric_does(server: NatsServer):
    policies = read_policies(DEFAULT_POLICIES)
    async with (
        serving(server.url, policies.engine(1, certify=True)),
        asking(server.url, "domain:default") as there,
        Enforcer.local(DEFAULT_POLICIES) as here,
    ):
        for question in QUESTIONS:
            assert outcome(await here.check(question)) == outcome(await there.check(question))
        assert list(map(outcome, await here.check_many(QUESTIONS))) == list(
            map(outcome, await there.check_many(QUESTIONS))
        )
        with pytest.raises(AccessDenied):
            await here.require("bob", "/sales/q1", "read")


async def test_what_it_has_decided_it_does_not_decide_again(monkeypatch: pytest.MonkeyPatch):
    judged: list[Request] = []
    evaluate = Engine.evaluate

    def counted(self: Engine, request: Request) -> Decision:
        judged.append(request)
        return evaluate(self, request)

    monkeypatch.setattr(Engine, "evaluate", counted)
    async with Enforcer.local(READERS) as pep:
        first = await pep.check("ann", "/notes/1", "read")
        second = await pep.check("ann", "/notes/1", "read")
        assert first.allowed
        assert second.allowed
        assert second.inferred is not None
        assert len(judged) == 1
    async with Enforcer.local(READERS, recycling=None) as pep:
        await pep.check("ann", "/notes/1", "read")
        await pep.check("ann", "/notes/1", "read")
        assert len(judged) == 3


async def test_every_decision_is_in_the_audit_file_in_a_chain_that_holds(tmp_path: Path):
    file = tmp_path / "audit"
    async with Enforcer.local(READERS, audit=file) as pep:
        for user in ("ann", "bob", "ann"):
            await pep.check(user, "/notes/1", "read")
    pages = list(AuditFile(file).pages())
    records = [read_record(each) for page in pages for each in page.records]
    assert [(str(each.request), each.decision.allowed) for each in records] == [
        ("ann read /notes/1", True),
        ("bob read /notes/1", False),
        ("ann read /notes/1", True),
    ]
    verifier = ChainVerifier(whole=True)
    for page in pages:
        verifier.take(page.writer, page.records)
    verifier.finish([read_head(head, writer) for writer, head in AuditFile(file).heads()], 1)
    assert verifier.broken == {}

    data = file.read_bytes()
    file.write_bytes(data.replace(b"/notes/1", b"/notes/2", 1))
    tampered = ChainVerifier(whole=True)
    for page in AuditFile(file).pages():
        tampered.take(page.writer, page.records)
    assert tampered.broken


async def test_it_searches_the_entities_it_is_given(tmp_path: Path):
    known = tmp_path / "known.yaml"
    known.write_text("objects: [/notes/1, /notes/2, /other/1]\n")
    async with Enforcer.local(READERS, entities=[known]) as pep:
        page = await pep.search(SearchQuery("object", Entity("ann"), None, Entity("read")))
        assert page.found == ("/notes/1", "/notes/2")
        with pytest.raises(SearchRefused, match="give"):
            await pep.search(SearchQuery("object", Entity("ann")))


async def test_it_explains_structured_and_in_words():
    async with Enforcer.local(READERS) as pep:
        explained = await pep.explain("bob", "/notes/1", "read")
        assert not explained.decision.allowed
        assert explained.others == 1
        granted = await pep.explain("ann", "/notes/1", "read")
        assert [each.policy for each in granted.policies] == ["ann-reads"]
        assert "allow ann-reads determines this" in str(granted)


async def test_who_may_not_see_policies_is_told_the_answer_alone():
    async with Enforcer.local({"a.yaml": READERS, "b.yaml": EXPLAINERS}) as pep:
        told = await pep.explain("ann", "/notes/1", "read", viewer="mallory")
        assert told.decision.allowed
        assert told.policies == ()
        assert "ann-reads" not in str(told)
        assert "ann-reads" in str(await pep.explain("ann", "/notes/1", "read", viewer="bob"))


async def test_an_explanation_comes_over_the_bus_too(running: Enforcer):
    explained = await running.explain("alice", "/sales/q1", "read")
    assert [each.policy for each in explained.policies if each.determines] == ["alice-reads-sales"]


@pytest.fixture
async def running():
    from authfabric.processes.launcher import fabric
    from pep import UNVERIFIED

    async with fabric(1) as running, Enforcer.connect(running.url, trust=UNVERIFIED) as pep:
        yield pep


@pytest.mark.parametrize(
    ("decision", "status"),
    [
        (Decision(False, Reason.POLICY, ("secret-policy",), "secret detail"), 403),
        (Decision(False, Reason.NO_POLICY), 403),
        (Decision(False, Reason.NO_PDP, detail="no PDP serves `/secret`"), 503),
        (Decision(False, Reason.TIMEOUT), 503),
        (Decision(False, Reason.INVALID_REQUEST), 400),
    ],
)
def test_a_denial_as_a_problem_leaks_no_policy(decision: Decision, status: int):
    problem = decision.as_problem()
    assert problem["status"] == status
    assert set(problem) == {"type", "title", "status", "detail"}
    assert "secret" not in str(problem)


def test_an_allow_is_no_problem():
    with pytest.raises(ValueError, match="no problem"):
        Decision(True).as_problem()


async def test_policies_that_cannot_be_read_are_refused_with_their_place(tmp_path: Path):
    with pytest.raises(InvalidPolicies, match=r"policies\.yaml:2:3"):
        async with Enforcer.local("- uid: a\n  effect: maybe\n  targets: {}\n  rules: {}\n"):
            pass
    with pytest.raises(BundleRefused, match="no policies"):
        async with Enforcer.local(tmp_path):
            pass
    with pytest.raises(BundleRefused, match=r"notes\.txt"):
        async with Enforcer.local({"notes.txt": READERS}):
            pass


async def test_a_string_is_a_folder_unless_it_could_be_policies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "notes.yaml").write_text(READERS)
    async with Enforcer.local("policies") as pep:
        assert (await pep.check("ann", "/notes/1", "read")).allowed
    with pytest.raises(BundleRefused, match=r"`polices` is no folder in .*: check its name"):
        async with Enforcer.local("polices"):
            pass
    for nothing in ("", "[]", "# - uid: a"):
        async with Enforcer.local(nothing) as pep:
            assert not (await pep.check("ann", "/notes/1", "read")).allowed


async def test_what_cannot_be_asked_is_refused_as_on_the_bus():
    async with Enforcer.local(READERS) as pep:
        with pytest.raises(InvalidRequest):
            await pep.check("", "/notes/1", "read")
        with pytest.raises(InvalidRequest):
            await pep.check("ann", "/notes/1", "read", deadline=-1)
        with pytest.raises(NotOnBus):
            _ = pep.asker
        assert [each.name for each in EnforcerMetrics(pep).collect()] == ["authfabric_pep_decisions"]


def test_threads_use_it_too(tmp_path: Path):
    with SyncEnforcer.local(READERS) as pep:
        assert pep.check("ann", "/notes/1", "read").allowed
        assert not pep.check("bob", "/notes/1", "read").allowed
        assert pep.explain("ann", "/notes/1", "read").decision.allowed
        assert pep.filter("ann", "read", ["/other/1", "/notes/1"]) == ["/notes/1"]
        assert str(pep.scope("ann", "read", "/notes/", deadline=20)) == "true"
        assert pep.filter("ann", "read", ["/other/1", "/notes/1"], deadline=20) == ["/notes/1"]
        assert pep.search(SearchQuery("subject", None, Entity("/notes/1"), Entity("read"))).found == ()


DEPARTMENTS = {
    "bundle.yaml": "name: notes\nprovided: [subject.department]\n",
    "notes.yaml": """
- uid: editors-read
  effect: allow
  targets: {resource_id: /notes/*, action_id: read}
  rules:
    subject: {$.department: {condition: Equals, value: editorial}}
""",
}


async def test_attributes_are_looked_up_in_files(tmp_path: Path):
    (tmp_path / "people.yaml").write_text("subjects:\n  ann: {department: editorial}\n")
    file = tmp_path / "attributes.yaml"
    file.write_text("- {file: people.yaml, provides: [subject.department]}\n")
    claimed = Entity("bob", {"department": "editorial"})
    async with Enforcer.local(DEPARTMENTS, attributes=file) as pep:
        assert (await pep.check("ann", "/notes/1", "read")).allowed
        assert not (await pep.check(claimed, "/notes/1", "read")).allowed
    async with Enforcer.local(DEPARTMENTS) as pep:
        assert (await pep.check("ann", "/notes/1", "read")).reason is Reason.ATTRIBUTE_UNAVAILABLE


async def test_a_service_that_looks_attributes_up_is_refused_where_there_is_no_bus(tmp_path: Path):
    file = tmp_path / "attributes.yaml"
    key = Identity.generate().public
    file.write_text(f"- {{service: hr, key: {key}, provides: [subject.department]}}\n")
    with pytest.raises(ProviderFailed, match="`hr` failed: in process there is no bus"):
        async with Enforcer.local(DEPARTMENTS, attributes=file):
            pass
