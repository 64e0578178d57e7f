"""The healthcare scenario, event by event and attribute by attribute, over four broker processes."""

from __future__ import annotations

from authfabric.interaction.check import Surroundings, check_use
from authfabric.scenarios.prescribe import PRESCRIBED, RULES, TYPES, play
from authz.rules.layout import format_rules
from pdp.lint.rule_check import check_interaction
from pdp.rules import Interaction, read_rule_file
from pubsub_core.types.event_type import EventType
from tests.pubsub_core.kinds import PITO, catalogue_of, ids

MORPHINE_P1, ASPIRIN_P1, MORPHINE_P2, ASPIRIN_P3 = range(4)


def whole(act: int, position: int) -> dict[str, object]:
    return {"type": "health.Prescribe", "number": f"{act}.{position}", **PRESCRIBED[position]}


def for_the_pharmacy(act: int, position: int) -> dict[str, object]:
    each = PRESCRIBED[position]
    kept = {name: each[name] for name in ("patient_id", "drug_id", "amount")}
    return {"type": "health.Prescription", "number": f"{act}.{position}", **kept}


def for_the_auditor(act: int, position: int) -> dict[str, object]:
    each = PRESCRIBED[position]
    kept = {name: each[name] for name in ("prescriber_id", "drug_id", "amount")}
    return {
        "type": "health.Controlled_Drug_Auth",
        "number": f"{act}.{position}",
        **kept,
        "class": "controlled",
    }


async def test_everyone_hears_what_concerns_them_and_as_it_concerns_them():
    outcomes = await play()
    assert len(outcomes) == 2
    doctors = (
        {"jones (doctor)": {MORPHINE_P1, ASPIRIN_P1}, "smith (doctor)": {MORPHINE_P2}},
        {"jones (doctor)": set(), "smith (doctor)": {MORPHINE_P1, ASPIRIN_P1, MORPHINE_P2}},
    )
    for act, (outcome, treated) in enumerate(zip(outcomes, doctors, strict=True)):
        assert outcome.published == tuple(whole(act, n) for n in range(4))
        expected = {
            name: tuple(whole(act, n) if n in own else None for n in range(4))
            for name, own in treated.items()
        }
        expected["boots (pharmacist)"] = tuple(for_the_pharmacy(act, n) for n in range(4))
        expected["audrey (auditor)"] = tuple(
            for_the_auditor(act, n) if n in {MORPHINE_P1, MORPHINE_P2} else None for n in range(4)
        )
        assert outcome.seen == expected
        assert "patient_id at home, pharmacy, surgery;" in outcome.note  # not where the auditor is
        assert "prescriber_id at audit, home, surgery." in outcome.note


def test_nothing_is_wrong_with_its_rules():
    new_id = ids()
    types = catalogue_of(*(EventType.new(name, PITO.public, each, new_id) for name, each in TYPES.items()))
    rules = Interaction.of([read_rule_file(RULES, "events.rules")])
    assert not [*check_interaction(rules), *check_use(rules, Surroundings(types=types))]
    assert format_rules(RULES) == RULES.lstrip()
