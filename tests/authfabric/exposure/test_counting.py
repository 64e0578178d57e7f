"""What is counted, by the database or by reading, is what a reading by brute force finds."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from hypothesis import given, settings
from hypothesis import strategies as st

from authfabric.exposure import (
    AccessFinder,
    Client,
    Counts,
    Evidence,
    Keys,
    Period,
    Place,
    Question,
    ShareTask,
    View,
    count,
    split,
)
from authfabric.exposure.counting import joined
from authz import Identity
from pdp.bundle import Bundle, File
from pubsub_core.events import Event, encode
from pubsub_core.history import EventCipher, HistoryStore, Keeping, Search, Span
from pubsub_core.rules import Mark
from pubsub_core.trust import Credential
from pubsub_core.types import AttributeType, Catalogue, EventType, SignedType
from tests.authfabric.exposure.brute import read_by_brute_force, tally
from tests.pubsub_core.history.databases import postgresql, url

__all__ = ["postgresql", "url"]

OWNER = Identity.generate()
KIND = EventType.new(
    "Seen",
    OWNER.public,
    [("ward", AttributeType.STRING), ("age", AttributeType.INTEGER), ("patient", AttributeType.STRING)],
    uuid4,
)
CATALOGUE = Catalogue()
CATALOGUE.accept(SignedType.sign(KIND, OWNER), 0.0)
WARD, AGE, PATIENT = (each.id for each in KIND.attributes)
KINDS = {each.id: each.type for each in KIND.attributes}
VAULT = EventCipher(b"k" * 32)

ALLOW = """
- {uid: in-%(n)s, effect: allow, rules: {}, targets: {action_id: connect, resource_id: %(brokers)s}}
- {uid: see-%(n)s, effect: allow, rules: {}, targets: {action_id: %(actions)s, resource_id: /types/Seen}%(duties)s}
"""
DUTIES = [
    "",
    ", obligations: [{attributes: [ward, age]}]",
    ", obligations: [{hidden: [ward]}]",
    ", obligations: [{filter: 'age >= 40'}]",
    ", obligations: [{filter: 'ward = $ward'}]",
    ", obligations: [{filter: 'NOT age < 30'}, {attributes: [patient]}]",
    ", obligations: [{predicate: multiple-of, with: {value: event.age, factor: 2}}]",
    ", obligations: [{predicate: no-older-than, with: {seconds: 3}}]",
]
RULES = [
    "a: ALLOW SUBSCRIPTION TO Seen\nb: ALLOW REPLAY OF Seen\n",
    "a: ALLOW SUBSCRIPTION TO Seen\nb: ALLOW REPLAY OF Seen WHERE sub.ward IS NOT NULL\n",
    "a: ALLOW SUBSCRIPTION TO Seen\nb: ALLOW REPLAY OF Seen\n"
    "c: TRANSFORM EVENT Seen TO Seen ON notify EXECUTE null(patient)\n"
    "d: TRANSFORM EVENT Seen TO Seen ON notify EXECUTE keep() WHERE watched(ward) OVERRIDES c\n"
    "FLUENT watched(ward) INITIATED BY Seen(ward) TERMINATED BY Seen(ward)\n",
    "a: ALLOW SUBSCRIPTION TO Seen\nb: ALLOW REPLAY OF Seen WHERE user.ward = '1'\n"
    "c: TRANSFORM EVENT Seen TO Seen ON notify EXECUTE hash(patient) WHERE age > 30\n",
    "a: ALLOW SUBSCRIPTION TO Seen WHERE consents(patient)\n",
]
times = st.integers(0, 12).map(float)
spans = st.tuples(times, times).map(lambda two: Span(min(two), max(two)))
seen = st.fixed_dictionaries(
    {},
    optional={
        WARD: st.sampled_from(["1", "2"]),
        AGE: st.sampled_from([20, 35, 50]),
        PATIENT: st.sampled_from(["p1", "p2"]),
    },
)


@st.composite
def bundles(draw):
    actions = draw(st.sampled_from(["subscribe", "replay", "[subscribe, replay]"]))
    brokers = draw(st.sampled_from(["/brokers/east", "[/brokers/east, /brokers/west]"]))
    policies = ALLOW % {
        "n": 0,
        "actions": actions,
        "brokers": brokers,
        "duties": draw(st.sampled_from(DUTIES)),
    }
    files = [File("policies.yaml", policies)]
    if draw(st.booleans()):
        files.append(File("some.rules", draw(st.sampled_from(RULES))))
    return Bundle.of(files)


@st.composite
def histories(draw):
    """A few policies one after the other, clients, keys, fluents and events."""
    starts = sorted(draw(st.sets(times, min_size=1, max_size=3)))
    ends = [*starts[1:], float("inf")]
    periods = [Period(Span(*each), draw(bundles())) for each in zip(starts, ends, strict=True)]
    clients = []
    for name in ("ann", "bob"):
        credential = Credential("key", name, "default", 100.0, {"ward": draw(st.sampled_from(["1", "2"]))})
        hosts = draw(st.sampled_from([(), ("east",), ("west",), ("east", "west")]))
        clients.append(Client(credential, draw(st.one_of(spans, st.just(Span()))), hosts))
    sealed = draw(st.sets(st.sampled_from([WARD, PATIENT])))
    held = {
        host: {id_: tuple(draw(st.lists(spans, max_size=2))) for id_ in sealed}
        for host in draw(st.sets(st.sampled_from(["east", "west"])))
    }
    marks = [
        Mark("watched", (draw(st.sampled_from(["1", "2"])),), draw(times), draw(st.booleans()))
        for _ in range(draw(st.integers(0, 2)))
    ]
    keys = Keys(frozenset(sealed), held if sealed else {})
    events = [
        Event(KIND.id, KIND.version, b"p", draw(times), number, values)
        for number, values in enumerate(draw(st.lists(seen, max_size=6)))
    ]
    question = Question(
        KIND.id,
        draw(st.sampled_from([PATIENT, AGE])),
        draw(spans),
        draw(times),
        draw(st.sampled_from(["", "east"])),
    )
    proposed = draw(st.none() | bundles())
    return question, Evidence(CATALOGUE, clients, periods, keys, marks), events, proposed


async def counted(url, question, evidence, events, proposed, searched, sql=True):
    others = [] if proposed is None else [Period(Span(float("-inf")), proposed)]
    with HistoryStore(url, VAULT) as store:
        store.keep(Keeping(KIND.id, KINDS, searched, name=KIND.name))
        store.append([(each, encode(each)) for each in events])
        every = [each.bundle for each in (*evidence.periods, *others)]
        async with AccessFinder.of(question, evidence, every) as accesses:
            views = {
                each.credential.name: View(
                    await accesses.find(each, evidence.periods),
                    None if proposed is None else await accesses.find(each, others),
                )
                for each in evidence.clients
            }
            return await count(store, question, views, accesses, sql=sql)


async def compare(question, evidence, events, proposed):
    others = [Period(Span(float("-inf")), proposed)] if proposed is not None else None
    expected = {}
    for name in ("ann", "bob"):
        then = await read_by_brute_force(events, question, evidence, evidence.periods, name)
        after = None
        if others is not None:
            after = await read_by_brute_force(events, question, evidence, others, name)
        expected[name] = tally(then, after)
    clear = {WARD: Search.CLEAR, AGE: Search.CLEAR, PATIENT: Search.BLIND}
    with TemporaryDirectory() as folder:
        for number, searched in enumerate(({}, clear)):
            url = f"sqlite:///{Path(folder) / f'{number}.db'}"
            found = await counted(url, question, evidence, events, proposed, searched)
            assert found.tallies == expected


@settings(max_examples=25, deadline=None)
@given(histories())
def test_what_is_counted_is_what_a_reading_by_brute_force_finds(history):
    asyncio.run(compare(*history))


def test_a_broker_replays_its_own_history_also_when_it_has_lost_the_keys_of_the_type():
    policies = Bundle.of(
        [
            File(
                "p.yaml",
                ALLOW % {"n": 0, "actions": "[subscribe, replay]", "brokers": "/brokers/east", "duties": ""},
            )
        ]
    )
    ann = Client(Credential("key", "ann", "default", 100.0, {}), brokers=("east",))
    keys = Keys(frozenset({PATIENT}), {"east": {PATIENT: [Span(0.0, 2.0)]}})
    evidence = Evidence(CATALOGUE, [ann], [Period(Span(3.0), policies)], keys)
    events = [Event(KIND.id, KIND.version, b"p", 1.0, 1, {PATIENT: "p1"})]

    def could_read(broker: str) -> int:
        question = Question(KIND.id, PATIENT, Span(0.0, 12.0), 12.0, broker)
        found = asyncio.run(counted("sqlite://", question, evidence, events, None, {}))
        return found.tallies["ann"].full

    assert (could_read("east"), could_read("west")) == (1, 0)


async def in_parts(url, parts: int) -> tuple[Counts, ShareTask]:
    """What is counted of some sightings, and the task that counts them in parts of the time."""
    whole = await counted(url, ALL, WARDS, SEEN, None, {})
    with HistoryStore(url, VAULT) as store:
        spans = split(ALL, store, parts)
    assert len(spans) == parts
    return whole, ShareTask(Place(url, (b"k" * 32,)), ALL, WARDS, None, ("ann", "bob"), spans)


POLICIES = Bundle.of(
    [
        File(
            "p.yaml",
            ALLOW
            % {"n": 0, "actions": "[subscribe, replay]", "brokers": "/brokers/east", "duties": DUTIES[4]},
        )
    ]
)
WARDS = Evidence(
    CATALOGUE,
    [
        Client(Credential("key", name, "default", 100.0, {"ward": ward}))
        for name, ward in (("ann", "1"), ("bob", "2"))
    ],
    [Period(Span(0.0), POLICIES)],
)
SEEN = [
    Event(KIND.id, KIND.version, b"p", float(at), at, {WARD: "1" if at % 3 else "2", PATIENT: f"p{at}"})
    for at in range(12)
]
ALL = Question(KIND.id, PATIENT, Span(0.0, 20.0), 20.0)


async def test_parts_counted_by_themselves_come_to_the_whole_in_postgresql_too(url):
    whole, task = await in_parts(url, 4)
    assert joined([await task.count(part) for part in task.parts]) == whole
    assert (whole.tallies["ann"].full, whole.tallies["bob"].full, whole.events) == (8, 4, 12)
