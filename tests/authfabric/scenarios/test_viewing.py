"""How the scenarios show who saw what."""

from __future__ import annotations

from rich.console import Console

from authfabric.scenarios.viewing import side_by_side

PUBLISHED = [
    {"number": 1, "patient": "p1", "rate": 33, "place": {"lat": 52.2, "lon": 0.1}},
    {"number": 2, "patient": "p2", "rate": 15, "place": {"lat": 52.3, "lon": 0.1}},
]
CARER = [PUBLISHED[0]]
WARD = [{"number": 1, "rate": "Critical", "ward": "C3"}]


def lines(note=""):
    console = Console(width=80)
    with console.capture() as captured:
        console.print(
            side_by_side("In the ward", PUBLISHED, {"carer": CARER, "ward": WARD}, "number", note).picture()
        )
    return [line.rstrip() for line in captured.get().splitlines() if line.strip()]


def test_each_event_is_followed_by_what_is_different_in_what_each_viewer_saw_of_it():
    assert lines() == [
        "In the ward",
        "number 1, patient p1, rate 33, place 52.2/0.1",
        "  carer  all of it",
        "  ward   all but patient, place; rate Critical, ward C3",
        "Nobody is shown now:",
        "  number 2, patient p2, rate 15, place 52.3/0.1",
    ]


def test_whoever_sees_nothing_of_what_others_see_is_shown_so():
    console = Console(width=80)
    with console.capture() as captured:
        console.print(side_by_side("", PUBLISHED[:1], {"carer": CARER, "ward": []}, "number").picture())
    assert "  ward   nothing" in captured.get()


def test_a_note_stands_below_the_title():
    assert lines("as a note")[:2] == ["In the ward", "as a note"]
