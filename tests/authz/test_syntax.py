"""Languages keep the tables made of their grammars, and go by the grammar nevertheless."""

from __future__ import annotations

import sys

import pytest
from lark import Transformer

from authz.errors import InvalidSyntax
from authz.syntax import Language


class Reader(Transformer):
    def start(self, words):
        return [str(each) for each in words]


@pytest.fixture
def grammar(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    (tmp_path / "__pycache__").mkdir()
    path = tmp_path / "words.lark"
    path.write_text('start: WORD+\nWORD: "yes" | "no"\n%ignore " "\n')
    return path


def read(grammar, text):
    return Language(grammar, "start", Reader(), {"WORD": "a word"}).parse(text)


def kept(grammar):
    return list((grammar.parent / "__pycache__").iterdir())


def test_tables_are_kept_and_read_alike(grammar):
    first = read(grammar, "yes no yes")
    (tables,) = kept(grammar)
    written = tables.stat().st_mtime_ns

    assert read(grammar, "yes no yes") == first == ["yes", "no", "yes"]
    assert tables.stat().st_mtime_ns == written
    with pytest.raises(InvalidSyntax, match="`m` cannot stand here: expected a word"):
        read(grammar, "yes maybe")


def test_tables_of_another_grammar_are_made_anew(grammar):
    read(grammar, "yes")
    grammar.write_text(grammar.read_text().replace("yes", "yea"))

    assert read(grammar, "yea") == ["yea"]
    with pytest.raises(InvalidSyntax):
        read(grammar, "yes")


def test_broken_tables_are_made_anew(grammar):
    read(grammar, "yes")
    (tables,) = kept(grammar)
    tables.write_bytes(tables.read_bytes()[:-100])

    assert read(grammar, "yes") == ["yes"]


def test_whoever_wants_no_compiled_files_gets_none(grammar, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    assert read(grammar, "no") == ["no"]
    assert kept(grammar) == []
