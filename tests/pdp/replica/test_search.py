"""A search finds exactly what asking for each known entity would find, page by page, without asking for all."""

from __future__ import annotations

import asyncio
import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import pdp.replica.search
from authz import Entity, InvalidRequest, Request
from bus.wire.messages import SearchPage, SearchQuery
from pdp.bundle.bundle import Bundle, File
from pdp.bundle.entities import Entities
from pdp.bundle.policy_set import PolicySet
from pdp.replica.policy_point import PolicyPoint
from pdp.replica.search import InvalidSearch, question
from tests.pdp.cases import ACTIONS, OBJECTS, SUBJECTS, Cases

ROLES = """\
role clerk, boss(place)
boss(p) > clerk
clerk |- privilege(read, "/docs/*")
boss(p), [object.dept == "a"] |- privilege(*, "/hr/{p}/**")
"""
LABELS = """\
levels: [low, high]
dominance: permits
subjects: {attribute: name, table: {bob: high}}
objects: {table: {/docs/a: low, "root": high}}
"""


def known(cases: Cases, names: list[str]) -> dict[str, Entity]:
    pick = cases.random
    roles = [["clerk"], ["boss(b)"], [], ["boss(x)", "clerk"]]
    return {
        name: Entity(
            name, cases.attributes() | ({"roles": pick.choice(roles)} if pick.random() < 0.5 else {})
        )
        for name in sorted(names)
    }


async def every_page(point: PolicyPoint, query: SearchQuery) -> list[str]:
    found: list[str] = []
    while True:
        page: SearchPage = await point.search(query)
        assert len(page.found) <= query.limit
        found += page.found
        if not page.cursor:
            return found
        query = replace(query, cursor=page.cursor)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 1_000_000), st.sampled_from(["subject", "object", "action"]), st.integers(1, 4))
def test_a_search_finds_what_asking_one_by_one_finds(seed, wanted, limit):
    cases = Cases(seed)
    files = [File("p.json", json.dumps(cases.policies(15)))]
    files += [File("r.oasis", ROLES)] if cases.random.random() < 0.5 else []
    files += [File("labels.yaml", LABELS)] if cases.random.random() < 0.2 else []
    entities = Entities(known(cases, SUBJECTS), known(cases, OBJECTS), known(cases, ACTIONS))
    point = PolicyPoint(PolicySet.read(Bundle.of(files)), entities=entities, certify=False)
    (asked,) = cases.requests(1)
    query = SearchQuery(wanted, asked.subject, asked.object, asked.action, asked.context, limit)
    query = replace(query, **{wanted: None})
    population = getattr(entities, f"{wanted}s")
    expected = [
        name
        for name, entity in population.items()
        if point.engine.evaluate(question(query, entity, entities)).allowed
    ]
    assert asyncio.run(every_page(point, query)) == expected


def searching(policies: str, entities: Entities) -> tuple[PolicyPoint, list[int]]:
    """A point, and how many requests it decided at a time."""
    point = PolicyPoint(PolicySet.read(Bundle.of([File("p.yaml", policies)])), entities=entities)
    decided: list[int] = []
    decide = point.decide_many

    async def counting(requests: list[Request]) -> list:
        decided.append(len(requests))
        return await decide(requests)

    point.decide_many = counting
    return point, decided


def objects(count: int) -> Entities:
    shelves = {f"/shelf/{n % 100}/{n}": {"owner": f"u{n % 50}"} for n in range(count)}
    return Entities(objects={name: Entity(name, given) for name, given in sorted(shelves.items())})


READ = SearchQuery("object", Entity("ann"), None, Entity("read"))


@pytest.mark.parametrize(
    "only",
    [
        "targets: {resource_id: /shelf/7/*}, rules: {}",
        "targets: {}, rules: {resource: {$.owner: {condition: Equals, value: u7}}}",
        "targets: {resource_id: [/shelf/7/7, /shelf/8/8]}, rules: {}",
    ],
)
async def test_only_what_a_policy_could_be_about_is_asked_for(only):
    point, decided = searching(
        f"- {{uid: some, effect: allow, {only}}}\n"
        "- {uid: other, effect: allow, targets: {subject_id: bob}, rules: {}}\n"
        "- {uid: never, effect: deny, targets: {resource_id: /else/*}, rules: {}}\n",
        objects(2_000),
    )
    page = await point.search(READ)
    assert page.found
    assert sum(decided) <= 40


async def test_a_page_ends_after_so_many_decisions_and_the_next_goes_on(monkeypatch):
    monkeypatch.setattr(pdp.replica.search, "MOST_DECISIONS", 300)
    rule = "{resource: {$.owner: {condition: RegexMatch, value: '^u49$'}}}"
    point, _ = searching(f"- {{uid: a, effect: allow, targets: {{}}, rules: {rule}}}", objects(1_000))
    first = await point.search(READ)
    assert len(first.found) < 20
    assert first.cursor
    assert len(await every_page(point, READ)) == 20


async def test_what_is_known_of_the_others_counts_and_what_is_said_counts_more():
    policy = (
        "{uid: a, effect: allow, targets: {}, rules: {subject: {$.role: {condition: Equals, value: clerk}}}}"
    )
    entities = Entities({"ann": Entity("ann", {"role": "clerk"})}, {"/x": Entity("/x")}, {})
    point, _ = searching("- " + policy, entities)
    assert (await point.search(READ)).found == ("/x",)
    sent = replace(READ, subject=Entity("ann", {"role": "boss"}))
    assert (await point.search(sent)).found == ()


async def test_a_page_says_under_which_epoch_it_was_decided():
    policies = PolicySet.read(
        Bundle.of([File("p.yaml", "- {uid: a, effect: allow, targets: {}, rules: {}}")])
    )
    page = await PolicyPoint(policies, 7, entities=objects(3)).search(replace(READ, limit=2))
    assert (len(page.found), page.epoch) == (2, 7)


@pytest.mark.parametrize(
    ("query", "error"),
    [
        (SearchQuery("object", Entity("ann"), Entity("/x"), Entity("read")), InvalidSearch),
        (SearchQuery("object", Entity("ann")), InvalidSearch),
        (replace(READ, limit=0), InvalidSearch),
        (replace(READ, limit=100_000), InvalidSearch),
        (replace(READ, cursor="?"), InvalidSearch),
        (replace(READ, subject=Entity("")), InvalidRequest),
    ],
)
async def test_a_search_that_cannot_be_meant_is_refused(query, error):
    point, _ = searching("[]", objects(1))
    with pytest.raises(error):
        await point.search(query)


def test_entities_stay_in_the_order_of_their_ids():
    names = [f"/{random.Random(7).random()}" for _ in range(20)]
    text = json.dumps({"objects": names})
    assert list(Entities.parse(text).objects) == sorted(set(names))


FINANCE = """
- uid: clerks-approve
  effect: allow
  targets: {resource_id: /finance/*, action_id: approve}
  rules:
    subject: {$.role: {condition: Equals, value: clerk}}
    resource: {$.branch: {condition: Equals, value: north}}
- uid: not-from-outside
  effect: deny
  targets: {action_id: approve}
  rules:
    context: {$.inside: {condition: IsIn, values: [false]}}
- uid: reading-depends-too
  effect: deny
  targets: {action_id: read}
  rules:
    context: {$.hour: {condition: Gt, value: 20}}
"""


def finance() -> PolicyPoint:
    subjects = {"ann": Entity("ann", {"role": "clerk"}), "bob": Entity("bob", {"role": "guest"})}
    objects = {
        "/finance/1": Entity("/finance/1", {"branch": "south"}),
        "/finance/2": Entity("/finance/2", {"branch": "north"}),
        "/hr/1": Entity("/hr/1", {"branch": "north"}),
    }
    policies = PolicySet.read(Bundle.of([File("p.yaml", FINANCE)]))
    return PolicyPoint(policies, entities=Entities(subjects, objects, {}))


async def test_a_name_with_a_star_stands_for_all_that_begin_so():
    query = SearchQuery("subject", None, Entity("/finance/*"), Entity("approve"))
    assert (await finance().search(query)).found == ("ann",)
    one = replace(query, object=Entity("/finance/1"))
    assert (await finance().search(one)).found == ()
    everybody = SearchQuery("object", Entity("*"), None, Entity("approve"))
    assert (await finance().search(everybody)).found == ("/finance/2",)


@pytest.mark.parametrize(
    ("name", "told"),
    [("/finance/*/x", "at the end of a name only"), ("/sales/*", "`/sales/\\*` stands for no known objects")],
)
async def test_a_star_that_cannot_be_meant_is_refused(name, told):
    with pytest.raises(InvalidSearch, match=told):
        await finance().search(SearchQuery("subject", None, Entity(name), Entity("approve")))


async def test_a_star_stands_for_so_many_only(monkeypatch):
    monkeypatch.setattr(pdp.replica.search, "MOST_MEANT", 1)
    with pytest.raises(InvalidSearch, match="more than 1 known"):
        await finance().search(SearchQuery("subject", None, Entity("/finance/*"), Entity("approve")))


async def test_policies_that_depend_on_facts_that_were_not_given_are_named():
    query = SearchQuery("subject", None, Entity("/finance/2"), Entity("approve"))
    assert (await finance().search(query)).depends == ("not-from-outside",)
    given = replace(query, context={"inside": True})
    assert (await finance().search(given)).depends == ()
