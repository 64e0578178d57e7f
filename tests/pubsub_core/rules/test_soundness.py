"""A subscriber receives what the rules let through under the present policy and context, and nothing else."""

from __future__ import annotations

import contextlib

from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from authz.predicate import EVENT, And, compile_predicate
from authz.predicate.filter import parse_filter
from pubsub_core.access.enforcement import Enforcement
from pubsub_core.access.restriction import Restriction
from pubsub_core.errors import EventError, InvalidFilter, InvalidObligation
from pubsub_core.rules.condition import without
from pubsub_core.rules.fluents import Fluent
from pubsub_core.rules.judge import Judge
from pubsub_core.rules.subscriber_filter import SubscriberFilter
from pubsub_core.rules.transformed_events import altered
from pubsub_core.types.filter_binding import bind_filter
from tests.pubsub_core.rules.reference import Named, World
from tests.pubsub_core.rules.reference import holds as plainly_holds
from tests.pubsub_core.rules.reference import shown as plainly_shown
from tests.pubsub_core.rules.ward import CATALOGUE, NAMES, READING, USER, book, named, read, reading

PATIENTS, NURSES = ("p1", "p2"), ("n1", "n2", "C3")
FACTS = (
    "patient = 'p1'", "patient != 'p2'", "nurse IN ('n1', 'C3')", "nurse = user.ward", "user.ward = nurse",
    "pulse > 2", "pulse BETWEEN 1 AND 3", "patient IS NULL", "taken < now()", "NOT pulse = 2",
    "treats(user, patient)", "calm(nurse)", "lookup('levels', nurse, 'level') = 1",
    "pulse > lookup('levels', nurse, 'level')", "user.ward = 'C3'",
)  # fmt: skip
UNKNOWN = ("strange(patient)", "lookup('nowhere', nurse, 'x') = 1", "calm(nurse, patient)")
ASKED = ("", "nurse = 'n1'", "patient = 'p1'", "NOT patient = 'p1'", "pulse > 2", "pulse < 3 OR nurse = 'n2'")
STEPS = {
    "ward.reading": ("keep()", "null(patient)", "round(pulse, 2)", "null(nurse) THEN round(pulse, 3)"),
    "ward.blurred": (
        "drop(patient) THEN drop(taken) THEN bucket(pulse, 'low', 3, 'high')",
        "drop(patient) THEN drop(taken) THEN round(pulse, 2) THEN bucket(pulse, 'low', 3, 'high')",
    ),
    "ward.audited": ("drop(patient) THEN drop(taken) THEN drop(nurse)",),
}
LABELS = ("a", "b", "c", "r:2", "r:10")


def conditions(facts: tuple[str, ...]) -> st.SearchStrategy[str]:
    return st.recursive(
        st.sampled_from(facts),
        lambda inner: st.one_of(
            st.builds("NOT ({})".format, inner),
            st.builds("({}) AND ({})".format, inner, inner),
            st.builds("({}) OR ({})".format, inner, inner),
        ),
        max_leaves=4,
    )


@st.composite
def rule_sets(draw: st.DrawFn, facts: tuple[str, ...]) -> list[tuple[str, str]]:
    """Some rules with their ids: those that restrict or transform may be labelled, and override others."""
    where = st.one_of(st.just(""), conditions(facts).map(" WHERE {}".format))
    rules = [
        (f"allow{number}", f"ALLOW SUBSCRIPTION TO ward.reading{draw(where)}")
        for number in range(draw(st.integers(0, 3)))
    ]
    free = set(STEPS)
    for id_ in draw(st.lists(st.sampled_from(LABELS), max_size=5, unique=True)):
        over = draw(st.lists(st.sampled_from("abc"), max_size=1))
        overrides = f" OVERRIDES {', '.join(over)}" if over else ""
        if draw(st.booleans()):
            text = f"RESTRICT DELIVERY OF ward.reading{{}} FILTER {draw(conditions(facts))}{overrides}"
        else:
            to = draw(st.sampled_from(sorted(free)))
            free -= {to} - {READING.name}  # two rules cannot both leave the same out, or put it into ranges
            steps = draw(st.sampled_from(STEPS[to]))
            text = f"TRANSFORM EVENT ward.reading TO {to} ON notify EXECUTE {steps}{{}}{overrides}"
        rules += [(id_, text.format(draw(where))) for _ in range(draw(st.integers(1, 2)))]
    return rules


EVENTS = st.fixed_dictionaries(
    {},
    optional={
        "patient": st.sampled_from(PATIENTS),
        "nurse": st.sampled_from(NURSES),
        "pulse": st.integers(0, 5),
        "taken": st.sampled_from([50.0, 150.0]),
    },
)
WORLDS = st.builds(
    lambda treated, calm, levels: World(
        USER,
        {("treats", ("ann", each)) for each in treated} | {("calm", (each,)) for each in calm},
        {"treats": 2, "calm": 1},
        {"levels": {name: {"level": level} for name, level in levels.items()}},
        100.0,
    ),
    st.sets(st.sampled_from(PATIENTS)),
    st.sets(st.sampled_from(NURSES)),
    st.dictionaries(st.sampled_from(NURSES), st.integers(0, 3)),
)


def delivered(rules: list[tuple[str, str]], values: Named, world: World, asked: str) -> dict[str, Named]:
    """What a broker delivers: routed by what was pushed out, then judged."""
    rulebook = book()
    context = rulebook.context
    context.defined, context.tables = world.fluents, world.tables  # type: ignore[assignment]
    for name, arguments in world.holding:
        context.fluents.initiate(Fluent(name, arguments), 1.0)  # type: ignore[arg-type]
    restriction = Restriction(rules=read(*rules))
    assert restriction.rules is not None
    bound = bind_filter(parse_filter(asked), NAMES)
    routed = And(
        (without(bound, altered(restriction.rules.changes, CATALOGUE, READING.id)), restriction.pushed)
    )
    happened = reading(**values)
    if not compile_predicate(routed, EVENT)(happened.attributes):
        return {}
    judge = Judge(restriction.rules, rulebook, SubscriberFilter(asked, READING.id, CATALOGUE))
    found = Enforcement(restriction, judges=(judge,)).show(happened, 10, world.now)
    if found is None and not restriction.rules.changes:
        return {}
    return {CATALOGUE.version(each.version).name: named(each) for each in found.events} if found else {}


def expected(
    rules: list[tuple[str, str]], values: Named, world: World, asked: str
) -> dict[str, Named] | None:
    found = plainly_shown(rules, values, READING.name, world)
    if found is None:
        return None
    return {kind: each for kind, each in found.items() if _wanted(asked, kind, each, world)}


def _wanted(asked: str, kind: str, values: Named, world: World) -> bool:
    """Whether a subscriber's filter is about such events at all, and lets this one through."""
    try:
        bind_filter(parse_filter(asked), CATALOGUE.names(CATALOGUE.named(kind).version))
    except InvalidFilter:
        return False
    return plainly_holds(parse_filter(asked), values, world) is True


def acceptable(rules: list[tuple[str, str]]) -> bool:
    """Whether they can stand together: they cannot if they override each other in a circle."""
    with contextlib.suppress(InvalidObligation):
        read(*rules)
        return True
    return False


@settings(max_examples=25, deadline=None)
@given(rules=rule_sets(FACTS), values=EVENTS, world=WORLDS, asked=st.sampled_from(ASKED))
def test_exactly_what_the_rules_let_through_is_delivered(rules, values, world, asked):
    assume(acceptable(rules))
    wanted = expected(rules, values, world, asked)
    event(f"{len(wanted or ())} delivered")
    assert delivered(rules, values, world, asked) == wanted


@settings(max_examples=25, deadline=None)
@given(rules=rule_sets(FACTS + UNKNOWN), values=EVENTS, world=WORLDS, asked=st.sampled_from(ASKED))
def test_what_turns_on_the_unknown_is_not_delivered(rules, values, world, asked):
    assume(acceptable(rules))
    found = delivered(rules, values, world, asked)
    if found:
        assert found == expected(rules, values, world, asked)


@st.composite
def unconditional(draw: st.DrawFn) -> list[tuple[str, str]]:
    """Rules without conditions: what is in force is the same for every event."""
    filters = draw(st.lists(st.sampled_from(FACTS[:3] + FACTS[5:8]), max_size=2))
    to = draw(st.sampled_from(sorted(STEPS)))
    steps = draw(st.lists(st.sampled_from((*STEPS[to], "drop(colour)")), max_size=1))
    return [
        ("all", "ALLOW SUBSCRIPTION TO ward.reading"),
        *((f"f{n}", f"RESTRICT DELIVERY OF ward.reading FILTER {each}") for n, each in enumerate(filters)),
        *(("t", f"TRANSFORM EVENT ward.reading TO {to} ON notify EXECUTE {each}") for each in steps),
    ]


@settings(max_examples=50, deadline=None)
@given(
    rules=unconditional(),
    many=st.lists(EVENTS, max_size=4),
    hidden=st.sets(st.sampled_from(sorted(NAMES)), max_size=2),
    only=st.sampled_from(ASKED),
    asked=st.sampled_from(ASKED),
)
def test_what_is_judged_together_is_shown_as_each_would_be_by_itself(rules, many, hidden, only, asked):
    visible = frozenset(each.id for name, each in NAMES.items() if name not in hidden) if hidden else None
    restriction = Restriction(visible, filter=bind_filter(parse_filter(only), NAMES), rules=read(*rules))
    books = book(), book()
    together, alone = (
        Enforcement(
            restriction,
            judges=(Judge(restriction.rules, each, SubscriberFilter(asked, READING.id, CATALOGUE)),),
        )
        for each in books
    )
    events = [reading(number, **values) for number, values in enumerate(many)]
    found = [alone.show(each, 10, 100.0) for each in events]
    try:
        shown = together.show_all(events)
    except EventError:
        assert books[1].counts.failed, "something cannot be done, and is said of each by itself"
        return
    assert shown is not None
    assert list(shown[0]) == [each.events[0] if each else None for each in found]
    assert all(each is None or each.rules == shown[1] for each in found)
    assert books[0].counts == books[1].counts
