from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from authfabric.terminal.markup import escape, render, shows_colours


@given(st.text(alphabet="[]/\\ab red", max_size=12))
def test_what_is_escaped_is_shown_as_it_is(text):
    assert render(f"[bold]{escape(text)}[/] after", colours=False) == f"{text} after"


@pytest.mark.parametrize(
    "text", ["[bold red]error:[/] no", "a [dim]b [green]c[/] d[/] e", "[1, 2] [x]y[/]", "plain"]
)
def test_without_colours_it_reads_as_rich_would_show_it(text):
    assert render(text, colours=False) == Text.from_markup(text).plain


def test_colours_begin_and_end_where_they_are_marked():
    assert render("[bold red]no[/] [dim]why[/]", colours=True) == "\x1b[1;31mno\x1b[0m \x1b[2mwhy\x1b[0m"
    assert render("[red]a[bold]b[/]c", colours=True) == "\x1b[31ma\x1b[1mb\x1b[0m\x1b[31mc\x1b[0m"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_colours_are_for_terminals_whose_owner_wants_them(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert shows_colours(Terminal())
    assert not shows_colours(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not shows_colours(Terminal())
