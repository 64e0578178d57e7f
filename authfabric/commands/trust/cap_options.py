"""What the commands of `authfabric cap` have in common: options, and how errors end them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from authfabric.terminal import Exit, fail, print_json
from authz import AuthFabricError
from authz.errors import InvalidKey, InvalidSyntax
from authz.spki import (
    Certificate,
    ChainRefused,
    InvalidCapability,
    Kind,
    Owners,
    Resource,
)
from authz.spki.syntax import parse_time

Out = Annotated[Path | None, typer.Option("--out", help="Write it there instead of to standard output.")]
Revoked = Annotated[
    list[Path] | None,
    typer.Option("--revoked", help="A revocation list or event to heed. Repeat it for several."),
]
At = Annotated[str | None, typer.Option("--at", help="The time to verify for. Default: now.")]


@contextmanager
def errors(json: bool = False) -> Iterator[None]:
    """End with one line and the exit code that says whose fault it is; `json` has a refusal printed as well."""
    try:
        yield
    except ChainRefused as error:
        if json:
            print_json({"sound": False, "link": error.link, "fault": error.fault, "problem": error.problem})
        fail(error, Exit.DENIED)
    except (InvalidSyntax, InvalidCapability, InvalidKey) as error:
        fail(error, Exit.USAGE)
    except AuthFabricError as error:
        fail(error)


def time_of(text: str | None) -> int:
    return int(time.time()) if text is None else parse_time(text)


def owner_of_all(chain: tuple[Certificate, ...]) -> Owners:
    """Take a chain at its word that its first issuer owns what it grants."""
    return Owners([(Resource(Kind.ANY, "*"), chain[0].issuer)])
