"""How commands about types end where a type is refused: one line, and the exit code that says whose fault it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from authfabric.terminal import Exit, fail, print_json
from authz import AuthFabricError
from authz.errors import InvalidKey
from authz.spki import InvalidCapability
from pubsub_core.errors import InvalidType, TypeRefused


@contextmanager
def type_errors(json: bool = False) -> Iterator[None]:
    """End with one line and the exit code that says whose fault it is."""
    try:
        yield
    except TypeRefused as error:
        if json:
            print_json({"sound": False, "type": error.name, "problem": error.problem})
        fail(error, Exit.DENIED)
    except (InvalidType, InvalidKey, InvalidCapability) as error:
        fail(error, Exit.USAGE)
    except AuthFabricError as error:
        fail(error)
