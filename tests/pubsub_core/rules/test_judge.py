"""What rules let through, and what becomes of it."""

from __future__ import annotations

import pytest

from authz.spki import Right
from pubsub_core.access.restriction import Restriction
from pubsub_core.access.rights import Ask, Granted
from pubsub_core.broker.reauthorization import Claim, Claims
from pubsub_core.errors import InvalidFilter, InvalidObligation
from pubsub_core.rules.fluents import Fluent
from pubsub_core.rules.interaction import About, read_interaction
from pubsub_core.rules.judge import Judge
from pubsub_core.rules.subscriber_filter import check_asked, shown_instead
from tests.pubsub_core.pair import KIND, Pair
from tests.pubsub_core.pair import NAMES as PLATES
from tests.pubsub_core.rules.ward import BLURRED, CATALOGUE, NAMES, READING, book, read, reading, shown

ALL = ("all", "ALLOW SUBSCRIPTION TO ward.reading")
CALM = ("calm", "RESTRICT DELIVERY OF ward.reading FILTER pulse < 100")
BLUR = (
    "blur",
    "TRANSFORM EVENT ward.reading TO ward.blurred ON notify"
    " EXECUTE drop(patient, taken) THEN bucket(pulse, 'calm', 100, 'racing') WHERE NOT emergency(patient)",
)
AUDIT = (
    "audit",
    "TRANSFORM EVENT ward.reading TO ward.audited ON notify EXECUTE drop(patient, taken) THEN rename(nurse, who)",
)
EVENT = {"patient": "p1", "nurse": "n1", "pulse": 120, "taken": 5.0}


def with_fluents(*holding: str):
    rules = book()
    rules.context.defined = {"emergency": 1, "treats": 2}
    for patient in holding:
        rules.context.fluents.initiate(Fluent("emergency", (patient,)), 10.0)
    return rules


def test_without_restrictions_the_event_itself_is_shown():
    event = reading(**EVENT)
    found = Judge(read(ALL), book()).show(event, 1000.0)
    assert found is not None
    assert found.events[0] is event
    assert found.rules == ("all",)


def test_the_event_itself_stays_as_it_was():
    event = reading(**EVENT)
    before = dict(event.attributes)
    assert shown(read(ALL, BLUR, AUDIT), event, rules=with_fluents())
    assert event.attributes == before


def test_one_of_the_alternatives_must_hold():
    rules = read(("a", "ALLOW SUBSCRIPTION TO ward.reading WHERE nurse = 'n1'"),
                 ("b", "ALLOW SUBSCRIPTION TO ward.reading WHERE pulse > 150"))  # fmt: skip
    assert shown(rules, reading(nurse="n1", pulse=1))
    assert shown(rules, reading(nurse="n2", pulse=160))
    assert not shown(rules, reading(nurse="n2", pulse=1))


def test_all_restrictions_that_apply_bind():
    rules = read(
        ALL, CALM, ("own", "RESTRICT DELIVERY OF ward.reading WHERE patient = 'p1' FILTER nurse = 'n1'")
    )
    assert shown(rules, reading(patient="p1", nurse="n1", pulse=60))
    assert not shown(rules, reading(patient="p1", nurse="n2", pulse=60)), "the second restriction applies"
    assert shown(rules, reading(patient="p2", nurse="n2", pulse=60)), "it does not apply to others"
    assert not shown(rules, reading(patient="p2", nurse="n2", pulse=160))


def test_a_rule_takes_the_place_of_what_it_overrides_only_where_it_applies():
    rules = read(
        ALL, CALM,
        ("icu", "RESTRICT DELIVERY OF ward.reading WHERE nurse = 'icu' FILTER pulse < 200 OVERRIDES calm"),
    )  # fmt: skip
    assert shown(rules, reading(nurse="icu", pulse=150))
    assert not shown(rules, reading(nurse="icu", pulse=250))
    assert not shown(rules, reading(nurse="n1", pulse=150))


def test_rules_that_override_each_other_are_refused():
    with pytest.raises(InvalidObligation, match="circle"):
        read(("a", "RESTRICT DELIVERY OF ward.reading FILTER pulse < 1 OVERRIDES b"),
             ("b", "RESTRICT DELIVERY OF ward.reading FILTER pulse < 2 OVERRIDES a"))  # fmt: skip


def test_each_target_type_gets_an_event_of_its_own_in_place_of_the_original():
    assert shown(read(ALL, BLUR, AUDIT), reading(**EVENT), rules=with_fluents()) == {
        "ward.audited": {"who": "n1", "pulse": 120},
        "ward.blurred": {"nurse": "n1", "pulse": "racing"},
    }


def test_steps_towards_one_type_are_joined_in_the_order_of_their_rules():
    late = (
        "r:10",
        "TRANSFORM EVENT ward.reading TO ward.blurred ON notify EXECUTE bucket(pulse, 'a', 100, 'b')",
    )
    early = ("r:9", "TRANSFORM EVENT ward.reading TO ward.blurred ON notify EXECUTE drop(patient, taken)"
             " THEN round(pulse, 50)")  # fmt: skip
    assert shown(read(late, early), reading(**{**EVENT, "pulse": 149})) == {
        "ward.blurred": {"nurse": "n1", "pulse": "b"}
    }
    assert shown(read(late, early), reading(**{**EVENT, "pulse": 99})) == {
        "ward.blurred": {"nurse": "n1", "pulse": "a"}
    }


def test_alternatives_of_one_rule_are_one_rule():
    twice = [("t", f"TRANSFORM EVENT ward.reading TO ward.reading ON notify EXECUTE perturb(pulse, 9) WHERE {each}")
             for each in ("nurse = 'n1'", "pulse > 1")]  # fmt: skip
    once = ("t", "TRANSFORM EVENT ward.reading TO ward.reading ON notify EXECUTE perturb(pulse, 9)")
    assert len(read(*twice).changes) == 1
    assert shown(read(*twice), reading(**EVENT)) == shown(read(once), reading(**EVENT))


def test_context_counts_at_the_moment_of_delivery():
    rules, judge_of = with_fluents(), read(ALL, BLUR)
    assert set(shown(judge_of, reading(**EVENT), rules=rules)) == {"ward.blurred"}
    rules.context.fluents.initiate(Fluent("emergency", ("p1",)), 990.0)
    assert shown(judge_of, reading(**EVENT), rules=rules) == {"ward.reading": EVENT}
    rules.context.fluents.terminate(Fluent("emergency", ("p1",)), 995.0)
    assert set(shown(judge_of, reading(**EVENT), rules=rules)) == {"ward.blurred"}


def test_the_user_and_the_request_are_known():
    treats = read(("t", "ALLOW SUBSCRIPTION TO ward.reading WHERE treats(user, patient)"))
    rules = with_fluents()
    assert not shown(treats, reading(**EVENT), rules=rules)
    rules.context.fluents.initiate(Fluent("treats", ("ann", "p1")), 1.0)
    assert shown(treats, reading(**EVENT), rules=rules)
    assert not shown(treats, reading(**{**EVENT, "patient": "p2"}), rules=rules)
    assert shown(
        read(("u", "ALLOW SUBSCRIPTION TO ward.reading WHERE nurse = user.ward")), reading(nurse="C3")
    )
    own = ("s", "ALLOW SUBSCRIPTION TO ward.reading WHERE patient = sub.patient")
    assert shown(read(own, patient="p1"), reading(**EVENT))
    assert not shown(read(own, patient="p2"), reading(**EVENT))
    assert not shown(read(own), reading(**EVENT))


def test_time_and_the_past_can_be_asked_about():
    fresh = read(("f", "ALLOW SUBSCRIPTION TO ward.reading WHERE taken > now() - interval '1 hour'"))
    assert shown(fresh, reading(taken=5_000.0), now=8_000.0)
    assert not shown(fresh, reading(taken=4_000.0), now=8_000.0)
    past = read(("p", "ALLOW SUBSCRIPTION TO ward.reading WHERE holds_at(emergency(patient), published())"))
    rules = with_fluents("p1")
    rules.context.fluents.terminate(Fluent("emergency", ("p1",)), 500.0)
    assert shown(past, reading(at=400.0, patient="p1"), rules=rules)
    assert not shown(past, reading(at=600.0, patient="p1"), rules=rules)


def test_what_nobody_can_tell_withholds_the_event_even_where_it_is_denied(caplog):
    rules = book()
    assert not shown(read(ALL, BLUR), reading(**EVENT), rules=rules)
    assert rules.counts.failed == 1
    assert "`emergency` is no fluent of 1 thing" in caplog.text
    free = ("n", "RESTRICT DELIVERY OF ward.reading WHERE NOT strange(patient) FILTER pulse > 0")
    assert not shown(read(ALL, free), reading(**EVENT))


@pytest.mark.parametrize(
    "steps",
    ["drop(patient)", "round(patient, 2) THEN drop(patient, taken)", "drop(colour)", "unheard(pulse)",
     "drop(patient, taken) THEN enrich(pulse, 'string', 'nowhere', nurse)"],
)  # fmt: skip
def test_an_output_that_does_not_fit_and_a_step_that_fails_withhold_the_event(steps):
    rules = book()
    wrong = ("w", f"TRANSFORM EVENT ward.reading TO ward.blurred ON notify EXECUTE {steps}")
    assert not shown(read(ALL, wrong), reading(**EVENT), rules=rules)
    assert rules.counts.failed == 1


def test_a_filter_by_what_is_left_out_finds_nothing():
    event, rules = reading(**EVENT), with_fluents()
    blur = read(ALL, BLUR)
    assert shown(blur, event, rules=rules, asked="nurse = 'n1'")
    assert not shown(blur, event, rules=rules, asked="patient = 'p1'")
    assert not shown(blur, event, rules=rules, asked="NOT patient = 'p2'")
    rules.context.fluents.initiate(Fluent("emergency", ("p1",)), 1.0)
    assert shown(blur, event, rules=rules, asked="patient = 'p1'"), "it is shown as it is"


def test_a_filter_fits_what_is_always_shown_or_is_refused_with_what_to_ask_by():
    step = "drop(patient, taken) THEN bucket(pulse, 'low', 40, 'high')"
    ranges = ("r", f"TRANSFORM EVENT ward.reading TO ward.blurred ON notify EXECUTE {step}")
    always = shown_instead(READING.id, [[read(ALL, ranges)]], CATALOGUE)
    assert always == {"ward.blurred": CATALOGUE.names(BLURRED.version)}
    for asked in ("nurse = 'n1'", "pulse = 'high' AND nurse = 'n1'"):
        check_asked(asked, NAMES, always)
    for asked in ("pulse >= 40", "patient = 'p1'"):
        with pytest.raises(
            InvalidFilter, match=r"show you .* as `ward.blurred`, .* ask by the attributes of"
        ):
            check_asked(asked, NAMES, always)
    with pytest.raises(InvalidFilter):
        check_asked("pulse = 'high'", NAMES, {})
    round_ = ("k", "TRANSFORM EVENT ward.reading TO ward.reading ON notify EXECUTE round(pulse, 10)")
    bar = ("b", "RESTRICT DELIVERY OF ward.reading WHERE nurse = 'n2' FILTER pulse > 0 OVERRIDES r")
    for sometimes in ((ALL,), (ALL, BLUR), (ALL, round_), (ALL, ranges, bar)):
        assert shown_instead(READING.id, [[read(*sometimes)]], CATALOGUE) == {}
    assert shown_instead(READING.id, [[read(ALL, ranges)], []], CATALOGUE) == {}, (
        "a sub-type is shown as it is"
    )


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("ALLOW SUBSCRIPTION TO ward.other", "another type"),
        ("ALLOW SUBSCRIPTION TO ward.reading WHERE colour = 'red'", "`colour` is not an attribute"),
        ("ALLOW SUBSCRIPTION TO ward.reading WHERE treats(user, colour)", "`colour` is not an attribute"),
        ("ALLOW SUBSCRIPTION TO", "cannot be read"),
        ("ALLOW SUBSCRIPTION TO ward.reading ALLOW REPLAY OF ward.reading", "must be one rule"),
        ("TRANSFORM EVENT ward.reading TO b ON publish EXECUTE drop(pulse)", "is not done on notify"),
        ("FLUENT f(x) INITIATED BY a(x) TERMINATED BY b(x)", "does not concern"),
    ],
)
def test_what_a_broker_cannot_do_is_refused(text, part):
    with pytest.raises(InvalidObligation, match=part):
        read(("x", text))


def test_what_is_pushed_lets_through_whatever_the_rules_do():
    pushed = read(
        ("a", "ALLOW SUBSCRIPTION TO ward.reading WHERE nurse = 'n1' AND treats(user, patient)"),
        ("b", "ALLOW SUBSCRIPTION TO ward.reading WHERE pulse > 150"),
        CALM,
    ).pushed
    assert str(pushed).replace(NAMES["nurse"].id, "N").replace(NAMES["pulse"].id, "P") == (
        'event["P"] < 100 and (event["N"] == "n1" or event["P"] > 150)'
    )
    overridable = read(
        CALM, ("o", "RESTRICT DELIVERY OF ward.reading WHERE nurse = 'x' FILTER pulse < 9 OVERRIDES calm")
    )
    assert str(overridable.pushed) == "true"


def test_what_must_be_read_to_judge_is_known():
    rules = read(
        ("a", "ALLOW SUBSCRIPTION TO ward.reading WHERE treats(user, patient)"),
        ("b", "RESTRICT DELIVERY OF ward.reading FILTER lookup('t', nurse, 'c') = 1"),
        ("c", "TRANSFORM EVENT ward.reading TO ward.reading ON notify EXECUTE null(taken) WHERE pulse > 1"),
    )
    assert rules.needs(NAMES) == {NAMES[name].id for name in ("patient", "nurse", "pulse")}


def test_a_broker_without_the_keys_for_what_rules_speak_of_grants_nothing():
    pair = Pair()
    subscription = pair.subscribe()
    claims = Claims(pair.away, None, {}, lambda types: None)  # type: ignore[arg-type]
    about = About(PLATES, KIND.version, (KIND.name,), {"user": {}, "sub": {}})
    fast = {
        "interaction": f"RESTRICT DELIVERY OF {KIND.name} WHERE NOT speed < 9 FILTER speed > 50",
        "rule": "f",
    }
    granted = Granted({KIND.id: Restriction(rules=read_interaction([fast], about))})
    session = pair.away.sessions["sub"]
    claim = Claim(session, Ask(session.holder, Right.SUBSCRIBE, KIND.id), subscription)
    claims.settle(claim, granted)
    assert KIND.id in subscription.granted
    pair.away.setting.vault.sealed.add(KIND.id)
    claims.settle(claim, granted)
    assert not subscription.granted
