"""The sports-news scenario, attribute by attribute, over three broker processes."""

from __future__ import annotations

from authfabric.scenarios.sports import STORIES, play

SPORTS, TENNIS_SET, DRAW, PARTNERS, FOREIGN, CHAMPION = range(6)


def shown(number: int, when: str) -> dict[str, object]:
    """A story as it reaches a reader: in the name of the agency that published it."""
    role, name, values = STORIES[number]
    agency = "Central" if role == "editor" else "Northern"
    return {"type": name, **values, "headline": f"{values['headline']} {when}", "agency": agency}


async def test_everyone_reads_what_their_package_holds_before_and_after_the_promotion():
    before, after = await play()
    packages = {
        "basic (london)": ({CHAMPION}, {CHAMPION, DRAW, PARTNERS}),
        "medium (paris)": ({CHAMPION, DRAW, PARTNERS},) * 2,
        "premium (rome)": ({SPORTS, TENNIS_SET, DRAW, PARTNERS, CHAMPION},) * 2,
    }
    for when, outcome, column in (("before", before, 0), ("after", after, 1)):
        for reader, held in packages.items():
            expected = tuple(shown(n, when) if n in held[column] else None for n in range(6))
            assert outcome.seen[reader] == expected
