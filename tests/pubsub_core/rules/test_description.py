"""Rules in the words that a client is told."""

from __future__ import annotations

from pubsub_core.rules.description import described
from tests.pubsub_core.rules.ward import CATALOGUE, READING, read


def test_each_rule_is_a_line_by_names_with_what_is_known_put_in():
    rules = read(
        ("a", "ALLOW SUBSCRIPTION TO ward.reading"),
        ("b", "ALLOW SUBSCRIPTION TO ward.reading WHERE nurse = user.ward AND treats(user, patient)"),
        ("n", "ALLOW SUBSCRIPTION TO ward.reading WHERE patient = user.nothing"),
        ("c", "RESTRICT DELIVERY OF ward.reading WHERE nurse != 'x' FILTER pulse < 100"),
        ("d", "TRANSFORM EVENT ward.reading TO ward.blurred ON notify EXECUTE drop(patient) THEN round(pulse, 5)"
              " WHERE pulse > 0 AND NOT user.ward = 'C9' OVERRIDES c"),
        ("e", "AUTO REPLAY EVENT TYPE ward.reading ON ward.audited"),
    )  # fmt: skip
    assert list(described(rules, CATALOGUE.attributes(READING.version))) == [
        "rule a allows all",
        "rule b allows where nurse = 'C3' AND treats(user, patient)",
        "rule n allows never",
        "rule c demands pulse < 100 where nurse != 'x'",
        "rule d makes ward.blurred by drop(patient), then round(pulse, 5) where pulse > 0, instead of c",
        "rule e replays past events on ward.audited",
    ]
