"""Functions given to a broker: what they do for rules, and that one that misbehaves harms nobody."""

from __future__ import annotations

import os
import signal
import threading
import tracemalloc
from collections.abc import Iterator

import pytest

from pubsub_core.functions.functions_service import Functions, FunctionsRefused, Limits
from pubsub_core.rules.context import Unknowable
from tests.pubsub_core.rules.ward import book, read, reading, shown
from tests.waiting import PATIENCE, eventually

MODULE = "tests.pubsub_core.functions.wayward"
ALL = ("all", "ALLOW SUBSCRIPTION TO ward.reading")


@pytest.fixture(scope="module")
def patient() -> Iterator[Functions]:
    """Functions with time enough on a busy machine."""
    with Functions(MODULE, Limits(seconds=10.0)) as functions:
        yield functions


@pytest.fixture
def strict() -> Iterator[Functions]:
    with Functions(MODULE, Limits(seconds=0.3, memory=256 << 20, barred=1000.0)) as functions:
        yield functions


def test_functions_are_predicates_and_steps_of_rules(patient):
    rules = book()
    rules.context.functions = patient
    only = ("only", "RESTRICT DELIVERY OF ward.reading FILTER is_controlled(nurse)")
    assert shown(read(ALL, only), reading(nurse="morphine"), rules=rules)
    assert not shown(read(ALL, only), reading(nurse="aspirin"), rules=rules)
    short = ("s", "TRANSFORM EVENT ward.reading TO ward.reading ON notify EXECUTE initials(nurse, '-')")
    assert shown(read(ALL, short), reading(nurse="Ann Lee", pulse=7), rules=rules) == {
        "ward.reading": {"nurse": "A-L-", "pulse": 7}
    }
    wrong = ("w", "TRANSFORM EVENT ward.reading TO ward.reading ON notify EXECUTE initials(pulse)")
    assert not shown(read(ALL, wrong), reading(nurse="Ann Lee", pulse=7), rules=rules)
    assert rules.counts.failed == 1


def test_what_was_answered_is_remembered(patient):
    assert patient.call("process_id", [1]) == patient.call("process_id", [1]) != os.getpid()
    assert patient.call("initials", ["Ann Lee"]) == "A.L."
    assert {"initials", "loops"} <= patient.names
    assert "CONTROLLED" not in patient


@pytest.mark.parametrize(
    ("name", "part"),
    [("raises", "ValueError: what is this?"), ("forks", "PermissionError"), ("shells", "PermissionError"),
     ("connects", "PermissionError"), ("floods", "too many"), ("recursive", "RecursionError"), ("odd", "gave a list")],
)  # fmt: skip
def test_one_that_fails_says_so_and_goes_on(patient, name, part):
    before = patient.call("process_id", [0])
    with pytest.raises(Unknowable, match=part):
        patient.call(name, [1])
    assert patient.call("process_id", [name]) == before


def test_what_a_function_prints_goes_nowhere(patient):
    assert patient.call("prints", ["\0\0\0\x01x"]) is True
    assert patient.call("is_controlled", ["codeine"]) is True


_DOWN = "brought its process down, or needed more than|took longer than"  # whichever is first


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("loops", "took longer than [0-9.]+ s"),
        ("garbles", "gave what cannot be read"),
        ("hoards", _DOWN),
        ("crashes", _DOWN),
        ("leaves", _DOWN),
    ],
)
async def test_one_that_exceeds_its_limits_is_ended_and_not_asked_for_a_while(strict, name, problem):
    before = strict.call("process_id", [0])
    with pytest.raises(Unknowable, match=problem):
        strict.call(name, [1])
    with pytest.raises(Unknowable, match="not asked for a while"):
        strict.call(name, [2])

    def again() -> object:
        try:
            return strict.call("process_id", ["again"])
        except Unknowable:  # it is being started
            return None

    await eventually(again)
    assert strict.call("process_id", ["again"]) != before
    with pytest.raises(ProcessLookupError):
        os.kill(int(str(before)), 0)


def test_an_event_whose_function_loops_is_withheld(strict):
    rules = book()
    rules.context.functions = strict
    bad = ("bad", "RESTRICT DELIVERY OF ward.reading WHERE NOT loops(patient) FILTER pulse > 0")
    for number in range(3):
        assert not shown(read(ALL, bad), reading(number, patient="p", pulse=1), rules=rules)
    assert rules.counts.failed == 3


def test_a_module_that_cannot_be_loaded_is_refused():
    with pytest.raises(FunctionsRefused, match="ModuleNotFoundError"), Functions("no.such.module"):
        pass


def test_one_that_reads_no_further_question_does_not_hold_its_broker_up(strict):
    rescue = threading.Timer(PATIENCE, os.kill, (strict.call("process_id", [0]), signal.SIGKILL))
    assert strict.call("turns_away", [1]) is True
    rescue.start()
    with pytest.raises(Unknowable, match="took longer"):
        strict.call("is_controlled", ["morphine" * 100_000])
    rescue.cancel()


def test_long_answers_and_questions_fill_no_memory(patient):
    tracemalloc.start()
    try:
        for number in range(50):
            assert len(patient.call("talks", [number])) == 900_000
            assert not patient.call("is_controlled", [f"{number}{'x' * 60_000}"])
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 2_000_000
