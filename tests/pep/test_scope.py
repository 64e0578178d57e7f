"""A scope says the same as asking row by row: as a Python filter, and in SQL on both databases."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from math import inf, nan
from time import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import (
    Boolean,
    Column,
    Engine,
    Float,
    Integer,
    MetaData,
    String,
    Table,
    create_engine,
    insert,
    select,
    text,
)

from authfabric.files import empower
from authfabric.testing import TestedFabric
from authz import Entity, Identity, InvalidRequest, Reason, Request
from authz.decision import Effect
from authz.predicate import (
    TRUE,
    And,
    Contains,
    Equal,
    Exists,
    In,
    Kind,
    Not,
    Or,
    Order,
    Prefix,
    Relate,
    Suffix,
)
from authz.predicate import Path as Attribute
from authz.scope import Scope as ListScope
from authz.scope import ScopeExpired, ScopeRefused, ScopeUnavailable
from bus import Connection, NatsServer, ReplyTimeout
from bus import Scope as BusScope
from bus.wire import ScopeAnswer, ScopeQuery, pack
from bus.wire import subjects as subjects_
from pdp.abac import Algorithm, Policy
from pdp.bundle import PolicySet
from pdp.bundle.manifest import Manifest
from pdp.replica import AnswerAuthority, PolicyPoint, Replica, serve_scopes
from pep import Enforcer
from pep.local import read_policies
from tests.pubsub_core.history.databases import postgresql  # noqa: F401

UNDER = "/notes/"
WORDS = ["", "a", "A", "ab", "B", "é", "É", "ann", "Ann", "ß", "a%", "_", "1", "zz", "a b", "😀"]
KEYS = ["a", "A", "b/..", "./a%", "c/../é", "..", "...", "a.b/.c", "1"]
NUMBERS = [0, 1, -1, 2, 7, 0.5, 1.0, 2.5, 2**40]
metadata = MetaData()


_oddest: dict[bool, str] = {True: "NOCASE", False: "default"}
"""The collation of texts in each kind of database: SQLite's ignores case."""


def table(sqlite: bool) -> Table:
    """Texts in a collation of their own, and types that SQLite does not hold columns to."""
    collation = _oddest[sqlite]
    return Table(
        f"notes_{'s' if sqlite else 'p'}",
        metadata,
        Column("key", String, primary_key=True),
        Column("owner", String(collation=collation)),
        Column("size", Integer().with_variant(Integer(), "sqlite")),
        Column("score", Float),
        Column("open", Boolean),
        extend_existing=True,
    )


def roots(root: str, names: tuple[str, ...]) -> st.SearchStrategy[Attribute]:
    return st.sampled_from([Attribute(root, (name,)) for name in names])


objects = st.one_of(
    roots("object", ("owner", "size", "score", "open", "absent")), st.just(Attribute("object"))
)
subjects = st.one_of(roots("subject", ("name", "level", "teams")), st.just(Attribute("subject")))
texts = st.sampled_from([*WORDS, UNDER, UNDER + "a"])
scalars = st.one_of(texts, st.sampled_from(NUMBERS), st.booleans())


def comparisons(path: st.SearchStrategy[Attribute]) -> st.SearchStrategy:
    return st.one_of(
        st.builds(Exists, path),
        st.builds(Kind, path, st.sampled_from(["string", "number", "boolean", "list"])),
        st.builds(Equal, path, scalars),
        st.builds(In, path, st.lists(scalars, max_size=3).map(tuple)),
        st.builds(
            Order, path, st.sampled_from(["<", "<=", ">", ">="]), st.one_of(texts, st.sampled_from(NUMBERS))
        ),
        st.builds(Prefix, path, texts),
        st.builds(Suffix, path, texts),
        st.builds(Contains, path, texts),
    )


relations = st.sampled_from(["==", "<", ">=", "in", "overlaps", "subset", "comparable"])
tests = st.one_of(
    comparisons(objects),
    comparisons(subjects),
    st.builds(Relate, objects, relations, subjects),
    st.builds(Relate, subjects, relations, objects),
)
conditions = st.recursive(
    tests,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(tuple).map(And),
        st.lists(inner, max_size=3).map(tuple).map(Or),
        st.builds(Not, inner),
    ),
    max_leaves=6,
)
policies = st.lists(
    st.tuples(st.sampled_from([Effect.ALLOW, Effect.ALLOW, Effect.DENY]), conditions, st.integers(0, 2)),
    min_size=1,
    max_size=4,
)
attributes = st.fixed_dictionaries(
    {},
    optional={"name": texts, "level": scalars, "teams": st.lists(st.one_of(scalars, st.none()), max_size=3)},
)
values = {
    "owner": st.one_of(st.none(), st.sampled_from(WORDS)),
    "size": st.one_of(st.none(), st.integers(-2, 8), st.just(2**40 % 2**31)),
    "score": st.one_of(st.none(), st.sampled_from([0.0, 0.5, 1.0, 2.5, -1.0, nan, inf, -inf])),
    "open": st.one_of(st.none(), st.booleans()),
}
rows = st.lists(st.fixed_dictionaries(values), min_size=1, max_size=len(KEYS))


def can_be_asked(request: Request) -> bool:
    try:
        request.validate()
    except InvalidRequest:
        return False
    return True


@pytest.fixture(scope="module")
def engines(postgresql) -> Iterator[dict[str, Engine]]:  # noqa: F811
    sqlite = create_engine("sqlite://")
    url = postgresql.get_uri().replace("postgresql://", "postgresql+psycopg://")
    found = {"sqlite": sqlite, "postgresql": create_engine(url)}
    with found["postgresql"].connect() as connection:
        known = "select collname from pg_collation where collencoding in (-1, 6) order by collname like 'en%' desc"
        _oddest[False] = connection.execute(text(known)).scalars().first()
    for name, engine in found.items():
        wanted = table(name == "sqlite")
        wanted.drop(engine, checkfirst=True)
        wanted.create(engine)
    yield found
    for engine in found.values():
        engine.dispose()


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(policies, attributes, rows, st.sampled_from(list(Algorithm)), st.booleans())
def test_a_scope_equals_asking_row_by_row(engines, drawn, known, listed, algorithm, wrong):
    made = tuple(Policy(f"p{n}", effect, where, order) for n, (effect, where, order) in enumerate(drawn))
    point = PolicyPoint(PolicySet(Manifest(algorithm=algorithm), made), 7)
    subject, action = Entity("ann", known), Entity("read")
    try:
        scope = asyncio.run(point.scope(ScopeQuery(subject, action, UNDER), 4e9))
    except ScopeRefused as refused:
        assert "asks whether a list has a list" in str(refused)  # noqa: PT017
        return
    assert (scope.epoch, scope.until) == (7, 4e9 + 10)
    for name, engine in engines.items():
        notes = table(name == "sqlite")
        columns = {**{each: notes.c[each] for each in values}, "id": notes.c.key, "absent": None}
        with engine.begin() as connection:
            connection.execute(notes.delete())
            keyed = [{**row, "key": KEYS[n]} for n, row in enumerate(listed)]
            connection.execute(insert(notes), keyed)
            if wrong and name == "sqlite":  # it lets any value stand in any column
                connection.execute(text("update notes_s set size = 'ann' where size = 1"))
            found = connection.execute(select(notes)).mappings().all()
            expected = set()
            for row in found:
                thing = Entity(UNDER + row["key"], {each: row[each] for each in values})
                asked = Request(subject, thing, action)
                allowed = can_be_asked(asked) and point.engine.evaluate(asked).allowed
                assert scope.filter()(thing) is allowed
                if allowed:
                    expected.add(row["key"])
            try:
                condition = scope.where(columns, name)
            except ScopeRefused:  # refused, and not dropped
                continue
            assert set(connection.execute(select(notes.c.key).where(condition)).scalars()) == expected


OWNERS = """
- uid: owners-read
  effect: allow
  targets: {resource_id: /notes/*, action_id: read}
  rules:
    subject: {}
    resource:
      $.owner: {condition: EqualsAttribute, ace: subject, path: id}
    action: {}
    context: {}
- uid: others
  effect: allow
  targets: {resource_id: /other/*, action_id: read}
  rules: {subject: {}, resource: {}, action: {}, context: {}}
"""
PATTERNS = """
- uid: odd-names
  effect: allow
  targets: {resource_id: /notes/*, action_id: read}
  rules:
    subject: {}
    resource:
      $.owner: {condition: RegexMatch, value: "^a+$"}
    action: {}
    context: {}
"""
OBLIGING = """
- uid: masked
  effect: allow
  targets: {resource_id: /notes/*, action_id: read}
  rules: {subject: {}, resource: {}, action: {}, context: {}}
  obligations: [{mask: [owner]}]
"""


async def test_a_scope_is_readable_and_has_nothing_about_others():
    async with Enforcer.local(OWNERS) as pep:
        scope = await pep.scope("ann", "read", UNDER)
        assert str(scope) == 'object.owner == "ann"'
        assert scope.epoch == 1
        assert str(await pep.scope("ann", "write", UNDER)) == "false"
        assert str(await pep.scope("ann", "read", "/other/")) == "true"


async def test_what_cannot_be_said_is_refused_with_its_place():
    async with Enforcer.local(PATTERNS) as pep:
        scope = await pep.scope("ann", "read", UNDER)
        assert scope.filter()(Entity("/notes/1", {"owner": "aaa"}))
        notes = table(True)
        with pytest.raises(ScopeRefused, match=r"policies\.yaml:2:3 \(policy `odd-names`\)") as refused:
            scope.where({"owner": notes.c.owner}, "sqlite")
        assert "matches" in refused.value.problem
    async with Enforcer.local(OWNERS) as pep:
        with pytest.raises(ScopeRefused, match="no column is given for `owner`"):
            (await pep.scope("ann", "read", UNDER)).where({}, "sqlite")
    async with Enforcer.local(OBLIGING) as pep:
        with pytest.raises(ScopeRefused, match="obliges"):
            await pep.scope("ann", "read", UNDER)


async def test_an_attribute_that_nothing_provides_is_no_refusal_by_the_policies():
    policies = {"bundle.yaml": "name: notes\nprovided: [subject.team]\n", "notes.yaml": OWNERS}
    async with Enforcer.local(policies) as pep:
        with pytest.raises(ScopeUnavailable, match=r"nothing provides `subject\.team` here: name a provider"):
            await pep.scope("ann", "read", UNDER)


def test_the_name_of_a_column_is_no_column():
    scope = ListScope("/notes/", Equal(Attribute("object", ("owner",)), "ann"), 1, time() + 60)
    with pytest.raises(TypeError, match="'owner' is no column: give one of SQLAlchemy's"):
        scope.where({"owner": "owner"}, "sqlite")


async def test_a_scope_is_not_used_after_its_time():
    point = PolicyPoint(PolicySet(), 1)
    old = await point.scope(ScopeQuery(Entity("ann"), Entity("read"), UNDER), 1000.0)
    assert old.until == 1010.0
    with pytest.raises(ScopeExpired):
        old.filter()
    with pytest.raises(ScopeExpired):
        old.where({}, "sqlite")


async def test_a_scope_by_older_policies_than_are_known_is_refused():
    async with Enforcer.local(OWNERS) as pep:
        assert (await pep.scope("ann", "read", UNDER)).epoch == 1
        pep.secondary.point.restart(2, 2)
        with pytest.raises(ScopeUnavailable, match="epoch 1, and 2 is known"):
            await pep.scope("ann", "read", UNDER)


async def test_candidates_are_filtered_in_their_order():
    fabric = TestedFabric(OWNERS)
    mine, yours = Entity("/notes/1", {"owner": "ann"}), Entity("/notes/2", {"owner": "bob"})
    assert await fabric.pep.filter("ann", "read", [yours, mine, "/other/1", "/notes/3"]) == [mine, "/other/1"]
    fabric.fail(Reason.TIMEOUT)
    assert await fabric.pep.filter("ann", "read", [mine]) == []


class TestOverTheBus:
    """A scope lets rows through, so it is believed as a decision is."""

    @pytest.fixture
    async def world(self, server: NatsServer):
        root, holder = Identity.generate(), Identity.generate()
        authority = AnswerAuthority(holder, [empower(holder, root)], time())
        served = [BusScope.parse("domain:default")]
        point = PolicyPoint(read_policies(OWNERS), 3)
        async with (
            Connection(server.url) as bus,
            Replica(bus, point, served, authority=authority),
            Enforcer.connect(server.url, trust=[root.public], recycling=None) as pep,
        ):
            yield bus, pep, lambda: serve_scopes(bus, point.scope, served, authority)

    async def test_it_is_what_the_replica_would_decide(self, world):
        _, pep, serving = world
        async with serving():
            scope = await pep.scope("ann", "read", UNDER, deadline=10)
            assert str(scope) == 'object.owner == "ann"'
            assert scope.epoch == 3
            assert scope.until <= time() + 10
            with pytest.raises(InvalidRequest):
                await pep.scope("", "read", UNDER)

    async def test_what_is_no_fault_of_the_policies_is_unavailable(self, world):
        bus, _, _ = world
        served = [BusScope.parse("domain:default")]
        root, holder = Identity.generate(), Identity.generate()
        authority = AnswerAuthority(holder, [empower(holder, root)], time())
        lacking = PolicyPoint(PolicySet(Manifest(provided=("subject.team",))), 3)

        async def failing(query: ScopeQuery, now: float) -> ListScope:
            raise RuntimeError

        async with Enforcer.connect(bus.url, trust=[root.public], recycling=None) as pep:
            for make, says in (
                (lacking.scope, r"nothing provides `subject\.team`"),
                (failing, "see its log"),
            ):
                async with (
                    Replica(bus, lacking, served, authority=authority),
                    serve_scopes(bus, make, served, authority),
                ):
                    with pytest.raises(ScopeUnavailable, match=says):
                        await pep.scope("ann", "read", UNDER, deadline=10)

    async def test_what_nobody_trusted_says_may_be_listed_is_not(self, world):
        bus, pep, serving = world
        everything = pack(ScopeAnswer(ListScope(UNDER, TRUE, 3, time() + 1000)))
        async with Connection(bus.url) as mallory:
            heard = asyncio.Event()

            def forge(subject: str, reply: str, payload: bytes, headers: bytes) -> None:
                mallory.send(reply, everything)
                heard.set()

            await mallory.listen(subjects_.scope("default"), forge)
            await mallory.flush()
            with pytest.raises(ReplyTimeout):
                await pep.scope("mallory", "read", UNDER, deadline=0.3)
            assert heard.is_set()
            async with serving():
                assert str(await pep.scope("ann", "read", UNDER, deadline=10)) == 'object.owner == "ann"'
