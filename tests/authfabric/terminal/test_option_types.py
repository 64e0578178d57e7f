"""A type of options is written once, and is options to whoever calls the command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from authfabric.terminal import Exit, with_option_types


@dataclass(frozen=True)
class Place:
    name: Annotated[str, typer.Option("--name", help="What it is called.")]
    size: Annotated[int, typer.Option(min=1, help="How large it is.")] = 3


app = typer.Typer()


@app.command()
@with_option_types
def show(what: Annotated[str, typer.Argument()], *, place: Place, loud: bool = False) -> None:
    """Say what is where."""
    typer.echo(f"{what} at {place.name}, {place.size}, {loud}")


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["ball", "--name", "yard"], "ball at yard, 3, False"),
        (["ball", "--size", "5", "--loud", "--name", "yard"], "ball at yard, 5, True"),
    ],
)
def test_each_field_is_an_option(words, shown):
    assert CliRunner().invoke(app, words).output.strip() == shown


@pytest.mark.parametrize("words", [["ball"], ["ball", "--name", "yard", "--size", "0"], ["--name", "yard"]])
def test_what_a_field_asks_for_is_checked(words):
    assert CliRunner().invoke(app, words).exit_code == Exit.USAGE


def test_help_tells_of_the_fields():
    text = CliRunner().invoke(app, ["--help"]).output
    assert "Say what is where." in text
    assert "--size" in text
    assert "What it is called." in text
