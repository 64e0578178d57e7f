"""Rules with rates: at most so many events in so much time, counted once however often they are sent."""

from __future__ import annotations

import pytest

from authz.spki import Capability, Right, Validity, parse_authority
from pubsub_core.access.rate_usage import Ledger
from pubsub_core.access.restriction import Metered
from pubsub_core.errors import EventError, InvalidFilter
from pubsub_core.replay.rate_limit import Pace
from pubsub_core.rules.judge import Judge
from pubsub_core.rules.rates import FEW, Rates
from pubsub_core.stores.usage_store import UsageStore
from tests.pubsub_core.kinds import MET, PITO
from tests.pubsub_core.rules.ward import book, read, reading

ALL = ("all", "ALLOW SUBSCRIPTION TO ward.reading")
SELDOM = ("seldom", "RESTRICT DELIVERY OF ward.reading FILTER at_most(1, '1 minute', patient)")
CALM = ("calm", "RESTRICT DELIVERY OF ward.reading FILTER pulse < 100")


def test_of_each_patient_one_event_a_minute_is_shown():
    judge = Judge(read(ALL, SELDOM), book())
    assert judge.show(reading(1, patient="p1"), 1000.0)
    assert judge.show(reading(2, patient="p1"), 1059.0) is None
    assert judge.show(reading(3, patient="p2"), 1059.0), "another patient"
    assert judge.show(reading(4, patient="p1"), 1060.0), "a minute later"


def test_an_event_that_is_sent_again_is_not_counted_again():
    judge = Judge(read(ALL, SELDOM), book())
    assert judge.show(reading(1, patient="p1"), 1000.0)
    assert judge.show(reading(1, patient="p1"), 1030.0)
    assert judge.show(reading(2, patient="p1"), 1060.0)


def test_what_another_rule_withholds_is_not_counted():
    judge = Judge(read(ALL, SELDOM, CALM), book())
    assert judge.show(reading(1, patient="p1", pulse=120), 1000.0) is None
    assert judge.show(reading(2, patient="p1", pulse=80), 1001.0)


def test_a_rate_goes_on_where_rules_are_read_anew():
    rules = book()
    assert Judge(read(ALL, SELDOM), rules).show(reading(1, patient="p1"), 1000.0)
    assert Judge(read(ALL, SELDOM), rules).show(reading(2, patient="p1"), 1001.0) is None


def test_rules_tell_what_is_replayed_from_what_is_not():
    past = ("live", "RESTRICT DELIVERY OF ward.reading FILTER NOT replayed() OR at_most(2, '1 hour')")
    judge = Judge(read(ALL, past), book())
    assert all(judge.show(reading(number), 1000.0) for number in range(5))
    replayed = [judge.show(reading(number), 1000.0, past=True) for number in range(5)]
    assert [each is not None for each in replayed] == [True, True, False, False, False]


@pytest.mark.parametrize("text", ["at_most(1, 'soon')", "at_most('1 minute')", "replayed(patient)"])
def test_a_rate_that_is_not_one_is_refused(text):
    with pytest.raises((InvalidFilter, EventError), match="minute"):
        Judge(read(ALL, ("bad", f"RESTRICT DELIVERY OF ward.reading FILTER {text}")), book())


def test_counts_that_are_over_are_dropped():
    rates = Rates()
    for number in range(FEW):
        rates.count(("ann", "r", (number,)), 60.0, reading(number), 1000.0)
    rates.count(("ann", "r", ("last",)), 60.0, reading(0), 2000.0)
    assert len(rates.counted()) == 1


class Replaying:
    def __init__(self) -> None:
        self.paces: dict[tuple[str, str], Pace] = {}


def test_rates_outlast_a_broker_that_is_restarted(tmp_path):
    file = tmp_path / "broker.rates"
    authority = parse_authority("type: ward.reading\naction: subscribe\nrate: 1 per 3600 seconds")
    capability = Capability(PITO.public, MET.public, False, authority, Validity())
    metered = Metered(capability, Right.SUBSCRIBE, "ward.reading")
    kept = []
    for started in range(2):
        rules, ledger, replays = book(), Ledger(), Replaying()
        store = UsageStore(file, rules.context.rates, ledger, replays)
        pace = replays.paces.setdefault(("ann", "audit"), Pace())
        shown = Judge(read(ALL, SELDOM), rules).show(reading(started, patient="p1"), 1000.0)
        kept.append((shown is not None, ledger.use("client", metered, 1000.0), len(pace.sent)))
        pace.send(5, 1000.0)
        store.save()
    assert kept == [(True, True, 0), (False, False, 1)]


def test_a_file_of_rates_that_cannot_be_read_stops_the_broker(tmp_path):
    file = tmp_path / "broker.rates"
    file.write_bytes(b"what?")
    with pytest.raises(EventError, match="cannot be read"):
        UsageStore(file, Rates(), Ledger(), Replaying())
