from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from spark_eval.reports.html import Claim, Plot, Report, Section, Table, render

HOSTILE = '<script>alert("x")</script>'
VOID = {"meta"}


class Page(HTMLParser):
    """What a browser would see: tags that close, and the text between them."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.words = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(self.words)


def page(*parts, **fields):
    section = Section("Findings", parts)
    return Page(
        render(Report(**{"title": "T", "lead": "L", "command": "c", "sections": [section], **fields}))
    )


def test_a_report_holds_all_its_parts():
    seen = page(
        "In words, with `code`.",
        Plot("<svg><text>drawn</text></svg>", "what it shows"),
        Claim("they say", "we find", agrees=True),
        Table(["name", "count"], [["a", 1_234_567], ["b", None]], title="All of them"),
        title="Availability",
        lead="It got better.",
        command="authfabric experiment availability",
        facts=[("fewer", "57 %")],
        notes="seed 1",
    )
    for words in (
        "In words", "code", "drawn", "what it shows", "they say", "we find", "agrees", "1,234,567", "-", "All of them",
        "Availability", "It got better.", "authfabric experiment availability", "57\u00a0%", "fewer", "seed 1",
        "Findings",
    ):  # fmt: skip
        assert words in seen.text


@pytest.mark.parametrize("field", ["title", "lead", "command", "notes"])
def test_no_text_becomes_markup(field):
    seen = page(**{field: HOSTILE})
    assert "script" not in seen.tags
    assert HOSTILE in seen.text


@pytest.mark.parametrize(
    "part",
    [
        HOSTILE,
        f"`{HOSTILE}`",
        Plot("<svg></svg>", HOSTILE),
        Claim(HOSTILE, HOSTILE, by=HOSTILE),
        Table([HOSTILE], [[HOSTILE]], title=HOSTILE),
        Table([HOSTILE], [[HOSTILE]], title=HOSTILE, folded=True),
    ],
)
def test_no_part_becomes_markup(part):
    seen = page(part, facts=[(HOSTILE, HOSTILE)])
    assert "script" not in seen.tags
    assert HOSTILE in seen.text


def test_a_report_needs_nothing_beside_itself():
    text = render(Report("T", "L", "c", [Section("S", ["text"])]))
    assert re.findall(r"(?:src=|href=|url\(|@import|https?:)", text) == []
    assert "default-src 'none'" in text


@pytest.mark.parametrize(("agrees", "word"), [(True, "agrees"), (False, "differs")])
def test_a_claim_says_whether_it_holds(agrees, word):
    assert word in page(Claim("a", "b", agrees)).text


def test_a_claim_without_verdict_says_none():
    assert not {"agrees", "differs"} & set(page(Claim("a", "b")).words)


@pytest.mark.parametrize(
    ("verdict", "why"), [("", "the interval is too wide"), ("too few windows", "too few windows")]
)
def test_a_claim_that_is_open_says_why(verdict, why):
    assert f"undecided: {why}" in page(Claim("a", "b", None, verdict=verdict, criterion="c")).text


def test_a_folded_table_opens_at_its_title():
    assert "details" in page(Table(["a"], [[1]], folded=True)).tags


def test_many_sections_have_a_list_of_contents():
    sections = [Section(f"Part {number}", []) for number in range(3)]
    assert "nav" in page(sections=sections).tags
    assert "nav" not in page(sections=sections[:2]).tags
