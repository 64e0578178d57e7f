"""Where passphrases come from: the environment, or whoever sits at the terminal."""

from __future__ import annotations

import sys

import typer

from authz import AuthFabricError
from bus.identity import PASSPHRASE_VARIABLE as VARIABLE
from bus.identity import configured_passphrase


class PassphraseMissing(AuthFabricError):
    """A passphrase is needed, and nobody is there to type it."""

    def __init__(self) -> None:
        super().__init__(f"a passphrase is needed: set {VARIABLE}, or run this in a terminal")


def known() -> str:
    """The passphrase of a key that exists."""
    return configured_passphrase() or _typed(confirm=False)


def chosen() -> str:
    """The passphrase of a key about to be made, typed twice."""
    return configured_passphrase() or _typed(confirm=True)


def _typed(*, confirm: bool) -> str:
    if not sys.stdin.isatty():
        raise PassphraseMissing
    typed: str = typer.prompt("passphrase", hide_input=True, confirmation_prompt=confirm, err=True)
    return typed
