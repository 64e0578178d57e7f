"""What is said with the answer, so that its figures are not misread."""

from __future__ import annotations

import pytest

from authfabric.exposure import Evidence, Gathered, Keys, Question, Trail, find_exposure
from authfabric.exposure.report import ELSEWHERE
from pubsub_core.events import Event
from pubsub_core.history import HistoryStore, Keeping, Span
from tests.authfabric.exposure.test_counting import CATALOGUE, KIND, KINDS, PATIENT, VAULT, encode
from tests.authfabric.exposure.test_trail import shown


@pytest.mark.parametrize(("others", "remarks"), [(0, ()), (1, (ELSEWHERE,))])
async def test_who_was_shown_more_than_this_history_has_was_shown_some_by_other_brokers(others, remarks):
    question = Question(KIND.id, PATIENT, Span(0.0, 12.0), 12.0, "east")
    event = Event(KIND.id, KIND.version, b"p", 1.0, 1, {PATIENT: "p1"})
    with HistoryStore("sqlite://", VAULT) as store, Trail([], ["Seen"], "patient", question.within) as trail:
        store.keep(Keeping(KIND.id, KINDS, {}, name=KIND.name))
        store.append([(event, encode(event))])
        trail.take([shown(2.0, "ann", *((number, 1.0) for number in range(1, 2 + others)))])
        evidence = Evidence(CATALOGUE, [], [], Keys(frozenset(), {}))
        found = await find_exposure(store, Gathered(question, evidence, KIND, trail))
    assert (found.clients[0].shown.events, found.remarks) == (1 + others, remarks)
