"""History keeps events, finds them by filter and time, and shows what was done to it; on SQLite and on PostgreSQL."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine, text

from authz.predicate import (
    TRUE,
    And,
    Equal,
    Exists,
    In,
    Not,
    Or,
    Order,
    Path,
    Predicate,
    Prefix,
    compile_predicate,
)
from authz.predicate.compiler import EVENT
from pubsub_core.events.event import Event, encode
from pubsub_core.history.at_rest import START, EventCipher
from pubsub_core.history.errors import HistoryDamaged, HistoryUnavailable
from pubsub_core.history.history_keys import HistoryKeys
from pubsub_core.history.position import ALWAYS, Position, Span
from pubsub_core.history.retention import Keeping, Search
from pubsub_core.history.storage.reading import Reading
from pubsub_core.history.storage.store import HistoryStore
from pubsub_core.types.event_type import AttributeType
from tests.pubsub_core.history.databases import postgresql, url

__all__ = ["postgresql", "url"]

TYPE, WHO, DRUG, AMOUNT, DOSE, URGENT = (f"{n:032x}" for n in range(6))
KINDS = {
    WHO: AttributeType.STRING,
    DRUG: AttributeType.STRING,
    AMOUNT: AttributeType.INTEGER,
    DOSE: AttributeType.FLOAT,
    URGENT: AttributeType.BOOLEAN,
}
ALL_CLEAR = dict.fromkeys(KINDS, Search.CLEAR)
ALL_BLIND = dict.fromkeys(KINDS, Search.BLIND)
VAULT = EventCipher(b"k" * 32)


def event(number: int, **attributes: object) -> Event:
    named = {"who": WHO, "drug": DRUG, "amount": AMOUNT, "dose": DOSE, "urgent": URGENT}
    return Event(
        TYPE, TYPE, b"publisher", float(number), number, {named[n]: v for n, v in attributes.items()}
    )


def path(attribute: str) -> Path:
    return Path("event", (attribute,))


def keep(history: HistoryStore, searched: dict[str, Search] | None = None) -> None:
    history.keep(
        Keeping(TYPE, KINDS, {DRUG: Search.BLIND, AMOUNT: Search.CLEAR} if searched is None else searched)
    )


def add(history: HistoryStore, events: list[Event]) -> int:
    return history.append((each, encode(each)) for each in events)


def everything(
    history: HistoryStore, filter_: Predicate = TRUE, *spans: Span, limit: int = 100
) -> list[Event]:
    reading = Reading(TYPE, spans or ALWAYS, filter_)
    page = history.read(reading, limit=limit)
    found = page.events
    while page.after is not None:
        page = history.read(reading, page.after, limit)
        found += page.events
    return found


def test_what_was_stored_is_read_in_order_of_time_page_by_page(url):
    events = [event(number, drug="morphine", amount=number) for number in (5, 1, 4, 2, 3)]
    with HistoryStore(url, VAULT) as history:
        keep(history)
        assert add(history, events) == 5
        in_order = sorted(events, key=lambda each: each.time)
        assert everything(history) == everything(history, limit=2) == in_order
        assert everything(history, TRUE, Span(2.0, 4.0), Span(5.0)) == [in_order[1], in_order[2], in_order[4]]
        assert everything(history, TRUE, Span(6.0, 5.0)) == []
        assert history.read(Reading(TYPE), Position(3.0, 10**9)).events == in_order[3:]


def test_a_page_that_is_sifted_later_leaves_nothing_out(url):
    events = [event(n, drug=("morphine", "aspirin")[n % 2], who=f"nurse{n % 3}") for n in range(12)]
    morphine, nurse = Equal(Path("event", (DRUG,)), "morphine"), Equal(Path("event", (WHO,)), "nurse1")
    with HistoryStore(url, VAULT) as history:
        keep(history)
        add(history, events)
        page = history.read(Reading(TYPE, filter=And((morphine, nurse))), exactly=False)
        assert page.events == events[::2]  # the database tells the drug, and not who gave it
        assert history.read(Reading(TYPE, filter=And((morphine, nurse)))).events == [
            each for each in events[::2] if each.attributes[WHO] == "nurse1"
        ]


def test_what_is_stored_twice_is_kept_once(url):
    with HistoryStore(url, VAULT) as history:
        keep(history)
        assert add(history, [event(1), event(2), event(1)]) == 2
        assert add(history, [event(2), event(3)]) == 1
        assert len(everything(history)) == 3
        assert list(history.verify(TYPE)) == [3]


def test_the_database_finds_events_without_opening_them_and_no_others_are_read(url):
    events = [event(n, drug=("morphine", "aspirin")[n % 2], amount=n, who=f"nurse{n % 3}") for n in range(60)]
    with HistoryStore(url, VAULT) as history:
        keep(history)
        add(history, events)
        opened: list[bytes] = []
        history._vault = HistoryKeys(_Counting(b"k" * 32, opened))
        wanted = And(
            (Equal(path(DRUG), "morphine"), Order(path(AMOUNT), ">=", 40), Equal(path(WHO), "nurse1"))
        )
        assert {each.sequence for each in everything(history, wanted)} == {40, 46, 52, 58}
        assert len(opened) == 10  # by drug and amount; who it was stands sealed


class _Counting(EventCipher):
    def __init__(self, secret: bytes, opened: list[bytes]) -> None:
        super().__init__(secret)
        self._opened = opened

    def open(self, sealed: bytes, place: bytes) -> bytes | None:
        self._opened.append(place)
        return super().open(sealed, place)


def test_nothing_of_a_sealed_or_blinded_value_stands_in_the_database(tmp_path):
    url = f"sqlite:///{tmp_path / 'history.db'}"
    with HistoryStore(url, VAULT) as history:
        keep(history, {DRUG: Search.BLIND})
        add(history, [event(1, drug="morphine sulphate", who="nurse_8821", amount=77_777_777)])
    written = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"events_" in written
    for secret in (b"morphine", b"nurse_8821", (77_777_777).to_bytes(4), (77_777_777).to_bytes(4, "little")):
        assert secret not in written


def test_a_type_that_is_searched_by_more_finds_what_was_there_before(url):
    with HistoryStore(url, VAULT) as history:
        keep(history, {})
        add(history, [event(1, drug="morphine", amount=1), event(2, drug="aspirin", amount=2)])
    with HistoryStore(url, VAULT) as history:
        keep(history, {DRUG: Search.BLIND, AMOUNT: Search.CLEAR})
        add(history, [event(3, drug="morphine", amount=3), event(4, drug="aspirin", amount=4)])
        assert [each.sequence for each in everything(history, Equal(path(DRUG), "morphine"))] == [1, 3]
        assert [each.sequence for each in everything(history, Not(Equal(path(DRUG), "morphine")))] == [2, 4]
        assert [each.sequence for each in everything(history, Order(path(AMOUNT), "<", 4))] == [1, 2, 3]
    with HistoryStore(url, VAULT) as history:
        keep(history, {DRUG: Search.CLEAR})
        assert [each.sequence for each in everything(history, Prefix(path(DRUG), "mor"))] == [1, 3]
        assert list(history.verify(TYPE)) == [4]


def test_what_is_old_is_forgotten_and_the_rest_still_verifies(url):
    with HistoryStore(url, VAULT) as history:
        keep(history)
        add(history, [event(number) for number in range(10)])
        assert history.prune(TYPE, before=4.0) == 4
        assert history.prune(TYPE, before=4.0) == 0
        assert [each.sequence for each in everything(history)] == [4, 5, 6, 7, 8, 9]
        assert list(history.verify(TYPE)) == [6]
        stats = history.stats()[TYPE]
        assert (stats.events, stats.oldest, stats.newest) == (6, 4.0, 9.0)
        assert history.prune(TYPE, before=99.0) == 6
        add(history, [event(11)])
        assert list(history.verify(TYPE)) == [1]


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM {table} WHERE sequence = 4",
        "DELETE FROM {table} WHERE sequence = 9",
        "UPDATE {table} SET time = 3.5 WHERE sequence = 4",
        "UPDATE {table} SET body = (SELECT body FROM {table} WHERE sequence = 5) WHERE sequence = 4",
        "UPDATE {table} SET sequence = 44 WHERE sequence = 4",
    ],
)
def test_what_was_taken_out_or_altered_shows(url, damage):
    with HistoryStore(url, VAULT) as history:
        keep(history)
        add(history, [event(number) for number in range(10)])
        engine = create_engine(url)
        with engine.begin() as connection:
            assert connection.execute(text(damage.format(table=f"events_{TYPE}"))).rowcount == 1
        engine.dispose()
        with pytest.raises(HistoryDamaged):
            list(history.verify(TYPE))


def test_another_key_is_refused_at_once_and_the_right_one_goes_on(url):
    with HistoryStore(url, VAULT):
        pass
    with pytest.raises(HistoryUnavailable, match="is sealed by another key"):
        HistoryStore(url, EventCipher(b"x" * 32))
    with HistoryStore(url, VAULT) as history:
        keep(history)
        add(history, [event(1)])
        assert everything(history) == [event(1)]


def test_a_database_from_before_keys_were_checked_takes_only_the_key_that_opens_it(url):
    with HistoryStore(url, VAULT) as history:
        keep(history)
        add(history, [event(1)])
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE history_about DROP COLUMN key_check"))
        connection.execute(text("UPDATE history_about SET version = 2"))
    engine.dispose()
    with pytest.raises(HistoryUnavailable, match="is sealed by another key"):
        HistoryStore(url, EventCipher(b"x" * 32))
    with HistoryStore(url, VAULT) as history:
        assert everything(history) == [event(1)]
    with pytest.raises(HistoryUnavailable, match="is sealed by another key"):
        HistoryStore(url, EventCipher(b"x" * 32))


def test_a_database_of_a_later_version_is_refused(url):
    with HistoryStore(url, VAULT):
        pass
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE history_about SET version = 99"))
    engine.dispose()
    with pytest.raises(HistoryUnavailable) as caught:
        HistoryStore(url, VAULT)
    assert "made by a later version" in str(caught.value)


@pytest.mark.parametrize(
    "bad", ["nonsense", "mysql://root:geheim@127.0.0.1/x", "sqlite:////proc/nowhere/x.db"]
)
def test_a_database_that_cannot_be_used_is_named_without_its_password(bad):
    with pytest.raises(HistoryUnavailable) as caught:
        HistoryStore(bad, VAULT)
    assert "geheim" not in str(caught.value)


words = st.sampled_from(["", "a", "b", "ab", "é", "\0", "morphine", "Morphine", "%_"])
wholes = st.sampled_from([-(2**63), -1, 0, 1, 2, 2**53, 2**53 + 1, 2**63 - 1])
reals = st.sampled_from([-1.5, 0.0, 1.0, 2.0, 2.5, float(2**53), 1e300])
attributes = st.fixed_dictionaries(
    {},
    optional={"who": words, "drug": words, "amount": wholes, "dose": reals, "urgent": st.booleans()},
)
constants = words | wholes | reals | st.booleans() | st.sampled_from([2**70, -(2**70), 0.5])
tests = st.sampled_from(list(KINDS)).map(path).flatmap(
    lambda where: st.one_of(
        st.builds(Equal, st.just(where), constants),
        st.builds(In, st.just(where), st.lists(constants, max_size=3).map(tuple)),
        st.builds(Order, st.just(where), st.sampled_from(["<", "<=", ">", ">="]), words | wholes | reals),
        st.builds(Prefix, st.just(where), words),
        st.just(Exists(where)),
    )
)  # fmt: skip
filters = st.recursive(
    tests,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda terms: And(tuple(terms))),
        st.lists(inner, max_size=3).map(lambda terms: Or(tuple(terms))),
        inner.map(Not),
    ),
    max_leaves=5,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=12)
@given(st.lists(attributes, max_size=8), st.lists(filters, min_size=1, max_size=6))
@pytest.mark.parametrize("searched", [{}, ALL_CLEAR, ALL_BLIND], ids=["sealed", "clear", "blind"])
def test_the_database_finds_exactly_what_the_algebra_says(url, searched, values, wanted):
    with HistoryStore(url, VAULT) as history:
        keep(history, searched)
        history.prune(TYPE, before=float("inf"))
        events = [event(number, **each) for number, each in enumerate(values)]
        add(history, events)
        for filter_ in wanted:
            holds = compile_predicate(filter_, EVENT)
            assert everything(history, filter_) == [each for each in events if holds(each.attributes)]


VERSION_1 = (
    "CREATE TABLE history_about (version INTEGER NOT NULL)",
    "INSERT INTO history_about VALUES (1)",
    "CREATE TABLE history_columns (type VARCHAR(32) NOT NULL, attribute VARCHAR(32) NOT NULL,"
    " search VARCHAR(8) NOT NULL, kind VARCHAR(16) NOT NULL, since BIGINT NOT NULL,"
    " PRIMARY KEY (type, attribute, search))",
    "CREATE TABLE history_heads (type VARCHAR(32) PRIMARY KEY, base {bytes} NOT NULL, head {bytes} NOT NULL)",
    f"CREATE TABLE events_{TYPE} (id {{id}}, time {{double}} NOT NULL, publisher {{bytes}} NOT NULL,"
    f" sequence BIGINT NOT NULL, body {{bytes}} NOT NULL, link {{bytes}} NOT NULL, blind_{DRUG} {{bytes}},"
    " UNIQUE (publisher, sequence, time))",
    f"INSERT INTO history_columns VALUES ('{TYPE}', '{DRUG}', 'blind', 'string', 0)",
)
"""How version 1 made its tables."""
WORDS = {
    "sqlite": {"bytes": "BLOB", "double": "DOUBLE", "id": "INTEGER PRIMARY KEY AUTOINCREMENT"},
    "postgresql": {"bytes": "BYTEA", "double": "DOUBLE PRECISION", "id": "BIGSERIAL PRIMARY KEY"},
}


def test_a_database_of_version_1_is_brought_up_to_date_with_all_it_has(url):
    engine = create_engine(url)
    old, place = event(1, drug="morphine"), ("publisher", 1.0, 1)
    bound = msgspec.msgpack.encode((TYPE, place[0].encode(), *place[1:]))
    sealed = VAULT.seal(encode(old), bound)
    link = VAULT.link(START, sealed, bound)
    with engine.begin() as connection:
        for statement in VERSION_1:
            connection.execute(text(statement.format(**WORDS[engine.dialect.name])))
        connection.execute(
            text(f"INSERT INTO history_heads VALUES ('{TYPE}', :base, :head)"), {"base": START, "head": link}
        )
        values = {"p": b"publisher", "body": sealed, "link": link, "blind": VAULT.blind(DRUG, "morphine")}
        columns = f"time, publisher, sequence, body, link, blind_{DRUG}"
        connection.execute(
            text(f"INSERT INTO events_{TYPE} ({columns}) VALUES (1.0, :p, 1, :body, :link, :blind)"), values
        )
    engine.dispose()
    with HistoryStore(url, VAULT) as history:
        assert history.stats()[TYPE].events == 1
    for _ in range(2):
        with HistoryStore(url, VAULT, "met") as history:
            keep(history, {DRUG: Search.BLIND})
            add(history, [event(2, drug="morphine"), event(3, drug="aspirin")])
            assert [each.sequence for each in everything(history, Equal(path(DRUG), "morphine"))] == [1, 2]
            assert list(history.verify(TYPE)) == [3]
    with pytest.raises(HistoryUnavailable, match="it is that of `met`"):
        HistoryStore(url, VAULT, "city")
