"""What providers say counts, what askers send in its place does not, and decisions say how long they rest on it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from authz import Basis, Entity, Reason, Request
from authz.predicate import And, Equal, Literal, Path, compile_predicate
from bus.wire.messages import SearchQuery
from pdp.attributes.providers import CachingProvider, Known, ProviderFailed
from pdp.bundle.bundle import Bundle, File
from pdp.bundle.policy_set import PolicySet
from pdp.replica.policy_point import PolicyPoint
from tests.pdp.cases import ACTIONS, OBJECTS, SUBJECTS, Cases

NOW, UNTIL = 1_000.0, 1_030.0
HIDDEN = ["subject.dept", "subject.level", "object.flag", "context.ip", "subject.roles"]


class Table:
    """Knows what a test puts in, by root and id."""

    name = "table"

    def __init__(self, known: Mapping[str, Mapping[str, dict]], *provides: str) -> None:
        self.known = known
        self.provides = frozenset(Path(*_split(each)) for each in provides)
        self.asked: list[tuple[str, frozenset[str]]] = []
        self.fails = False

    async def look_up(self, root: str, ids: frozenset[str]) -> dict[str, Known]:
        self.asked.append((root, ids))
        if self.fails:
            raise ProviderFailed("table", "it is away")
        return {each: Known(self.known.get(root, {}).get(each, {}), UNTIL) for each in ids}


def _split(text: str) -> tuple[str, tuple[str]]:
    root, _, name = text.partition(".")
    return root, (name,)


def point(policies: str, table: Table, provided: list[str], **more: str) -> PolicyPoint:
    files = [File("p.yaml", policies), File("bundle.yaml", f"provided: {json.dumps(provided)}")]
    files += [File(name.replace("_", "."), text) for name, text in more.items()]
    memory = CachingProvider(table, lambda: NOW, 20.0, lifetime=60.0)
    return PolicyPoint(PolicySet.read(Bundle.of(files)), 7, providers=[memory])


POLICIES = """\
- {uid: news, effect: allow, targets: {action_id: read}, rules: {subject: {$.dept: {condition: Equals, value: news}}}}
- {uid: public, effect: allow, targets: {resource_id: /public/*}, rules: {}}
- {uid: own, effect: allow, targets: {action_id: edit}, rules: {resource: {$.owner: \
{condition: EqualsAttribute, ace: subject, path: $.dept}}}}
"""
DEPT = ["subject.dept"]


def known(**subjects: dict) -> Table:
    return Table({"subject": subjects}, *DEPT)


async def decide(point: PolicyPoint, *requests: Request):
    decisions = await point.decide_many(requests)
    return decisions[0] if len(decisions) == 1 else decisions


async def test_what_the_provider_says_counts_whatever_is_sent():
    table = known(ann={"dept": "news"}, bob={"dept": "it"})
    its = point(POLICIES, table, DEPT)
    for sent in ({}, {"dept": "it"}, {"dept": "news"}):
        assert (await decide(its, Request.of(Entity("ann", sent), "/x", "read"))).allowed
        assert not (await decide(its, Request.of(Entity("bob", sent), "/x", "read"))).allowed
        assert not (await decide(its, Request.of(Entity("nobody", sent), "/x", "read"))).allowed


async def test_a_batch_asks_once_and_only_about_those_for_whom_it_matters():
    table = known(ann={"dept": "news"})
    requests = [
        Request.of(name, "/x", action) for name in ("ann", "bob", "ann") for action in ("read", "write")
    ]
    decisions = await decide(point(POLICIES, table, DEPT), *requests)
    assert [each.allowed for each in decisions] == [True, False, False, False, True, False]
    assert table.asked == [("subject", frozenset({"ann", "bob"}))]


async def test_without_the_attribute_needed_the_answer_is_no_with_that_reason():
    table = known()
    table.fails = True
    decision, public = await decide(
        point(POLICIES, table, DEPT), Request.of("ann", "/x", "read"), Request.of("ann", "/public/x", "write")
    )
    assert (decision.allowed, decision.reason) == (False, Reason.ATTRIBUTE_UNAVAILABLE)
    assert (
        decision.detail
        == "`subject.dept` could not be had: the attribute provider `table` failed: it is away"
    )
    assert (decision.epoch, decision.expires, decision.certificate) == (7, None, None)
    assert public.allowed


async def test_an_attribute_that_nobody_provides_is_unavailable():
    decision = await decide(point(POLICIES, Table({}), DEPT), Request.of("ann", "/x", "read"))
    assert decision.reason is Reason.ATTRIBUTE_UNAVAILABLE
    assert decision.detail.startswith("nothing provides `subject.dept` here: name a provider of it")


OWNERS = (
    "- {uid: own, effect: allow, targets: {}, rules: {resource: {$.owner: {condition: Equals, value: ann}}}}"
)


async def test_each_type_of_entity_has_its_own_provider_and_others_have_none():
    owned = {name: {"owner": "ann"} for name in ("/docs/1", "/docs/own/1", "/notes/1")}
    everything = Table({"object": owned}, "object.owner")
    nothing = Table({}, "object.owner")
    files = [File("p.yaml", OWNERS), File("bundle.yaml", "provided: [object.owner]")]
    providers = [
        CachingProvider(table, lambda: NOW, 20.0, lifetime=60.0, under=under)
        for table, under in ((nothing, "/docs/"), (everything, "/docs/own/"), (everything, "/notes/"))
    ]
    its = PolicyPoint(PolicySet.read(Bundle.of(files)), 7, providers=providers)
    names = ("/docs/1", "/docs/own/1", "/notes/1", "/films/1")
    decisions = await decide(its, *(Request.of("ann", each, "read") for each in names))
    assert [each.allowed for each in decisions] == [False, True, True, False]
    assert decisions[0].reason is not Reason.ATTRIBUTE_UNAVAILABLE
    assert decisions[3].reason is Reason.ATTRIBUTE_UNAVAILABLE
    assert decisions[3].detail.startswith("nothing provides `object.owner` of `/films/1` here: ")
    assert nothing.asked == [("object", frozenset({"/docs/1"}))]


async def test_a_certificate_pins_the_entity_and_lasts_as_long_as_the_attribute():
    decision = await decide(
        point(POLICIES, known(ann={"dept": "news"}), DEPT), Request.of("ann", "/x", "read")
    )
    assert decision.expires == UNTIL
    assert Literal(Equal(Path("subject"), "ann")) in decision.certificate
    assert not any("dept" in str(each) for each in decision.certificate)


async def test_a_certificate_pins_what_was_sent_beside_what_was_looked_up():
    its = point(POLICIES, known(ann={"dept": "news"}), DEPT)
    decision = await decide(its, Request.of("ann", Entity("/x", {"owner": "news"}), "edit"))
    assert decision.allowed
    assert Literal(Equal(Path("object", ("owner",)), "news")) in decision.certificate


async def test_a_decision_that_needs_nothing_looked_up_lasts():
    table = known()
    decision = await decide(point(POLICIES, table, DEPT), Request.of("ann", "/public/x", "write"))
    assert (decision.allowed, decision.expires, table.asked) == (True, None, [])


async def test_what_was_not_looked_up_certifies_nothing():
    dept = "subject: {$.dept: {condition: Equals, value: news}}"
    above = "resource: {$.n: {condition: Gt, value: %d}}"
    policies = "".join(
        f"- {{uid: p{n}, effect: allow, targets: {{}}, rules: {{{dept}, {above % n}}}}}\n" for n in range(4)
    )
    table = known(ann={"dept": "news"})
    its = point(policies, table, DEPT)
    denied = await decide(its, Request.of("ann", Entity("/x", {"n": 0}), "read"))
    assert (denied.allowed, table.asked) == (False, [])
    other = Request.of("ann", Entity("/x", {"n": 7}), "read")
    assert (await decide(its, other)).allowed
    assert denied.certificate is None or not all(
        compile_predicate(each.predicate)(other) for each in denied.certificate
    )


@pytest.mark.parametrize("provides", [(), ("subject.roles",)])
async def test_where_rules_say_who_may_activate_a_role_nobody_is_believed_to_be_in_it(provides):
    rules = '[principal(u)] |- clerk(u)\nclerk(u) |- privilege(read, "/x")'
    its = point("[]", Table({"subject": {"ann": {"roles": ["clerk(ann)"]}}}, *provides), [], r_oasis=rules)
    claims = await decide(its, Request.of(Entity("eve", {"roles": ["clerk(eve)"]}), "/x", "read"))
    assert (claims.allowed, claims.reason) == (
        False,
        Reason.NO_POLICY if provides else Reason.ATTRIBUTE_UNAVAILABLE,
    )
    known = await decide(its, Request.of("ann", "/x", "read"))
    assert known.allowed is bool(provides)
    assert (known.roles and known.roles.names) == (("clerk(ann)",) if provides else None)


async def test_a_decision_by_roles_that_were_looked_up_names_them_and_not_those_that_were_sent():
    rules = 'role clerk\nclerk |- privilege(read, "/x")'
    table = Table({"subject": {"ann": {"roles": ["clerk"]}}}, "subject.roles")
    its = point("[]", table, ["subject.roles"], r_oasis=rules)
    allowed, denied = await decide(
        its, Request.of("ann", "/x", "read"), Request.of(Entity("eve", {"roles": ["clerk"]}), "/x", "read")
    )
    assert (allowed.allowed, denied.allowed) == (True, False)
    assert (allowed.basis, allowed.roles.names) == (Basis.ROLES, ("clerk",))
    assert (denied.basis, denied.roles.names) == (Basis.ROLES, ())
    assert allowed.roles.until == allowed.expires
    sent = point("[]", Table({}), [], r_oasis=rules)
    decision = await decide(sent, Request.of(Entity("eve", {"roles": ["clerk"]}), "/x", "read"))
    assert (decision.allowed, decision.basis, decision.roles) == (True, Basis.ROLES, None)


async def test_what_was_looked_up_and_is_no_list_of_names_is_no_basis():
    rules = 'role clerk\nclerk |- privilege(read, "/x")'
    table = Table({"subject": {"ann": {"roles": ["clerk", 7]}, "bob": {"roles": "clerk"}}}, "subject.roles")
    its = point("[]", table, ["subject.roles"], r_oasis=rules)
    found = await decide(its, *(Request.of(name, "/x", "read") for name in ("ann", "bob")))
    assert [(each.basis, each.roles) for each in found] == [(None, None)] * 2


async def test_an_explanation_shows_what_was_looked_up():
    its = point(POLICIES, known(ann={"dept": "it"}), DEPT)
    explanation = await its.explain(Request.of(Entity("ann", {"dept": "news"}), "/x", "read"))
    assert 'would need subject.dept == "news"; subject.dept is "it"' in str(explanation)


async def test_what_is_provided_but_not_declared_is_not_used(caplog):
    its = point(POLICIES, known(ann={"dept": "news"}), [])
    assert not (await decide(its, Request.of("ann", "/x", "read"))).allowed
    assert (await decide(its, Request.of(Entity("ann", {"dept": "news"}), "/x", "read"))).allowed
    assert "`subject.dept` is not looked up" in caplog.text


def world(cases: Cases) -> dict[str, dict[str, dict]]:
    """What is really so: the hidden attributes of everyone."""
    pick = cases.random
    return {
        "subject": {name: {**cases.attributes(), "roles": [pick.choice("ab")]} for name in SUBJECTS},
        "object": {name: cases.attributes() for name in OBJECTS},
        "action": {name: {} for name in ACTIONS},
        "context": {"": cases.attributes()},
    }


def truth(request: Request, provided: list[str], known: dict[str, dict[str, dict]]) -> Request:
    """The request as somebody who knows everything would ask it."""
    for each in provided:
        root, (name,) = _split(each)
        entity = getattr(request, root)
        given = dict(entity if root == "context" else entity.attributes)
        given.pop(name, None)
        found = known[root]["" if root == "context" else entity.id]
        given |= {name: found[name]} if found.get(name) is not None else {}
        request = replace(request, **{root: given if root == "context" else Entity(entity.id, given)})
    return request


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 1_000_000), st.sets(st.sampled_from(HIDDEN), min_size=1))
def test_a_point_decides_as_if_the_truth_had_been_sent_and_certifies_nothing_false(seed, hidden):
    cases, provided = Cases(seed), sorted(hidden)
    known, requests = world(cases), list(cases.requests(12))
    rules = 'role a, b\na |- privilege(read, "/docs/*")\nb, [object.flag == true] |- privilege(*, "**")'
    its = point(json.dumps(cases.policies(12)), Table(known, *provided), provided, r_oasis=rules)
    engine = its.engine
    decisions = asyncio.run(its.decide_many(requests))
    wanted = [engine.evaluate(truth(each, provided, known)) for each in requests]
    assert [each.allowed for each in decisions] == [each.allowed for each in wanted]
    for request, decision in zip(requests, decisions, strict=True):
        if decision.certificate is None:
            continue
        holds = compile_predicate(And(tuple(each.predicate for each in decision.certificate)))
        assert holds(request)
        for other, its_own in zip(requests, wanted, strict=True):
            if holds(other):
                assert its_own.allowed is decision.allowed


@pytest.mark.parametrize("sent", ["news", "it"])
async def test_a_search_looks_up_what_it_needs(sent):
    entities = json.dumps({"subjects": {"ann": {"dept": sent}, "bob": {"dept": sent}}})
    its = point(POLICIES, known(ann={"dept": "news"}), DEPT, entities_yaml=entities)
    query = SearchQuery("subject", None, Entity("/x"), Entity("read"))
    assert (await its.search(query)).found == ("ann",)
