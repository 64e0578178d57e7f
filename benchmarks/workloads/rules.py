"""Rules about a ward, as many as one likes, and events that some of them apply to."""

from __future__ import annotations

import random
from itertools import count
from uuid import UUID

from authz import Identity
from pubsub_core.events import Event
from pubsub_core.rules import About, Fluent, Judge, Rulebook, read_interaction
from pubsub_core.types import AttributeType, Catalogue, EventType, SignedType

_T = AttributeType
OWNER = Identity.from_seed(b"o" * 32)
_numbers = count(1)
READING = EventType.new(
    "ward.reading",
    OWNER.public,
    [("patient", _T.STRING), ("nurse", _T.STRING), ("pulse", _T.INTEGER), ("bed", _T.INTEGER)],
    lambda: UUID(int=next(_numbers)),
)
BLURRED = EventType.new(
    "ward.blurred",
    OWNER.public,
    [("nurse", _T.STRING), ("pulse", _T.STRING), ("bed", _T.INTEGER)],
    lambda: UUID(int=next(_numbers)),
)
KINDS = (
    "ALLOW SUBSCRIPTION TO ward.reading WHERE patient = 'p{n}' AND treats(user, patient)",
    "ALLOW SUBSCRIPTION TO ward.reading WHERE patient = 'p{n}' AND pulse > 40",
    "RESTRICT DELIVERY OF ward.reading WHERE patient = 'p{n}' FILTER pulse < 180",
    "RESTRICT DELIVERY OF ward.reading WHERE bed BETWEEN {n} AND {n} FILTER nurse STARTS WITH 'n'",
    "TRANSFORM EVENT ward.reading TO ward.blurred ON notify"
    " EXECUTE drop(patient) THEN bucket(pulse, 'low', 50, 'normal', 110, 'high')"
    " WHERE patient = 'p{n}' AND NOT emergency(patient)",
)
"""What is said of each patient."""


def judge(rules: int) -> Judge:
    """As many rules, five of them about each patient."""
    catalogue = Catalogue()
    for each in (READING, BLURRED):
        catalogue.accept(SignedType.sign(each, OWNER), 0.0)
    book = Rulebook(catalogue, b"secret")
    book.context.defined = {"treats": 2, "emergency": 1}
    for number in range(rules):
        book.context.fluents.initiate(Fluent("treats", ("ann", f"p{number}")), 1.0)
    texts = [KINDS[number % len(KINDS)].format(n=number // len(KINDS)) for number in range(rules)]
    about = About(
        catalogue.names(READING.version),
        READING.version,
        (READING.name,),
        {"user": {"subject": "ann"}, "sub": {}},
    )
    obligations = [{"interaction": text, "rule": f"r:{number}"} for number, text in enumerate(texts)]
    return Judge(read_interaction(obligations, about), book)


def events(rules: int, amount: int) -> list[Event]:
    """Events about the patients that there are rules about."""
    draw = random.Random(7)
    ids = [each.id for each in READING.attributes]
    patients = rules // len(KINDS)
    found = []
    for number in range(amount):
        patient = draw.randrange(patients)
        values = (f"p{patient}", f"n{draw.randrange(50)}", draw.randrange(40, 190), patient)
        event = Event(
            READING.id, READING.version, b"k" * 32, 10.0, number, dict(zip(ids, values, strict=True))
        )
        found.append(event)
    return found
