from __future__ import annotations

import pytest

from authz import Decision, Request
from spark_eval.experiment.linear_matching import EventService, equal
from spark_eval.experiment.response_service import _filtering


def test_a_filter_matches_if_every_value_it_names_is_there():
    service = EventService()
    for filter_ in (equal(object="a"), equal(object="b"), equal(object="a", subject="ann"), equal()):
        service.subscribe(filter_)
    assert service.match({"object": "a"}) == [0, 3]
    assert service.match({"object": "a", "subject": "ann", "effect": "deny"}) == [0, 2, 3]
    service.unsubscribe(equal(object="a"))
    assert service.match({"object": "a", "subject": "ann"}) == [1, 2]


@pytest.mark.parametrize("unsubscribes", [True, False])
async def test_everything_asked_and_answered_is_compared_with_every_filter(unsubscribes, monkeypatch):
    compared, match = [], EventService.match

    def count(self, notification):
        found = match(self, notification)
        compared.append((len(self), len(found)))
        return found

    async def ask(request):
        return Decision(True)

    monkeypatch.setattr(EventService, "match", count)
    variant = _filtering(ask, 7, unsubscribes)
    for number in range(3):
        await variant.ask(Request.of(f"s{number}", "/objects/1", "read"))
        await variant.settle()
    later = 0 if unsubscribes else 1
    sizes = [8 + later * number for number in range(3) for _ in range(2)]
    assert compared == [(size, 1 + place % 2) for place, size in enumerate(sizes)]
