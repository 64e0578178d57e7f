from __future__ import annotations

from xml.etree import ElementTree

import pytest

from spark_eval.reports.plots import LABEL, Chart, Mark, Series, bars, draw

CHART = Chart(
    "PDPs",
    "fewer <failed> requests",
    [
        Series("formula", [1, 2, 4], [0.0, 0.1, 0.25], mark=Mark.DASHES),
        Series("simulation", [1, 2, 4], [0.0, 0.1, 0.25], [0.0, 0.09, 0.24], [0.01, 0.11, 0.26]),
        Series("live", [2, 4], [0.1, 0.2], [0.05, 0.1], [0.2, 0.3], Mark.POINTS),
    ],
    percent=True,
    ticks=[1, 2, 4],
)


def words(svg):
    return [element.text for element in ElementTree.fromstring(svg).iter() if element.tag.endswith("text")]


def test_a_chart_is_well_formed_and_says_what_it_shows():
    said = words(draw(CHART))
    assert {"PDPs", "fewer <failed> requests", "formula", "simulation", "live", "1", "2", "4", "0 %"} <= set(
        said
    )


def test_the_same_values_give_the_same_text():
    assert draw(CHART) == draw(CHART)


def test_colours_and_fonts_are_the_pages_own():
    svg = draw(CHART)
    assert "var(--series-1)" in svg
    assert "var(--ink)" in svg
    assert "#0" not in svg.replace('href="#', "")
    assert "#11" not in svg
    assert "font-family" not in svg
    assert "<style" not in svg


def test_names_are_shown_as_they_are_and_long_ones_shortened():
    said = words(bars(["$.role$", "<b>", "x" * 200], [1, 2, 3], [4, 5, 6], "decisions", ("lost", "gained")))
    assert {"$.role$", "<b>", "lost", "gained"} <= set(said)
    assert max(map(len, said)) == LABEL


def test_logarithmic_axes_are_labelled_at_the_ticks():
    series = [Series("a", [1, 10, 64], [1, 2, 3])]
    assert {"1", "10", "64"} <= set(words(draw(Chart("n", "y", series, log_x=True, ticks=[1, 10, 64]))))


def test_what_is_counted_is_counted_in_whole_numbers():
    said = words(bars(["one"], [0], [1], "decisions", ("lost", "gained")))
    assert {"0", "1"} <= set(said)
    assert not any("." in each for each in said)


def places(svg):
    """Where marks of each colour stand, from the left."""
    found = {}
    for element in ElementTree.fromstring(svg).iter():
        if element.tag.endswith("use") and "var(--series" in element.get("style", ""):
            colour = element.get("style").split("var(--series-")[1][0]
            found.setdefault(colour, []).append(float(element.get("x")))
    return found


@pytest.mark.parametrize("log_x", [False, True])
def test_points_at_one_place_stand_side_by_side(log_x):
    both = [Series(name, [2, 8], [0.5, 1.0], mark=Mark.POINTS) for name in ("flood", "hedge")]
    found = places(draw(Chart("PDPs", "fewer", both, log_x=log_x, ticks=[2, 8])))
    assert not set(found["1"]) & set(found["2"])
    alone = places(draw(Chart("PDPs", "fewer", both[:1], log_x=log_x, ticks=[2, 8])))
    assert set(alone) == {"1"}
