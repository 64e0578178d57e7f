"""Options about event types that several commands have: whose definitions the names of types mean."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

import typer

from authz import PublicKey
from authz.spki import InvalidCapability
from bus.keystore import load_public_key
from pubsub_core.type_names import below

NamesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--names",
        metavar="PREFIX=KEY|FILE",
        help="Who is trusted with names of types that begin so; `*` for all. The longest prefix counts. Repeatable.",
    ),
]


def read_names(texts: Sequence[str] | None) -> tuple[tuple[str, PublicKey], ...]:
    """Patterns of names and who is trusted with them. Raises InvalidCapability, InvalidKey."""
    return tuple(entry for text in texts or () for entry in _entries(text))


def _entries(text: str) -> Iterable[tuple[str, PublicKey]]:
    prefix, equals, key = text.partition("=")
    if not equals or not prefix:
        raise InvalidCapability("--names", f"`{text}` must be PREFIX=KEY, such as `uk.gov.pito=pito.pub`")
    return below(prefix, load_public_key(key))
