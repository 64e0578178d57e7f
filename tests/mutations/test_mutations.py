"""Every threat on the page about security is shown by a test, and it is known how to take its defence away."""

from __future__ import annotations

import re

import pytest

from tests.mutations.catalogue import MUTATIONS
from tests.mutations.mutation import PAGE, ROOT, Mutation, Row, defines, rows

ROWS = rows()


def test_every_threat_on_the_page_names_a_test():
    tables = re.findall(r"^\| attacker .*\n\| ---.*\n((?:\|.*\n)+)", PAGE.read_text(), re.M)
    assert len([line for table in tables for line in table.splitlines()]) == len(ROWS) > 60


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.tries)
def test_its_test_exists_and_its_defence_can_be_taken_away(row: Row):
    assert defines(row.test), f"there is no {row.test}"
    assert any(each.row == row.test for each in MUTATIONS), f"nothing takes away: {row.defence}"


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.test)
def test_what_is_taken_away_stands_where_it_is_said_to_and_belongs_to_a_threat(mutation: Mutation):
    assert mutation.row in {row.test for row in ROWS}, "no threat on the page is shown by this"
    for edit in mutation.edits:
        assert (ROOT / edit.file).read_text().count(edit.old) == 1, (
            f"{edit.file} must have it once: {edit.old}"
        )
