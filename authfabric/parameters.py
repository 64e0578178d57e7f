"""Parameters that take plain values as they are.

Typer validates every value with pydantic, which takes longer to load than many a command to run. What is text, and
what already is of the type that is asked for, needs no validation.
"""

from __future__ import annotations

import enum
from typing import Any

_PLAIN = (bool, int, float)
_UNREAD = object()


def take_plainly(parameter: Any) -> Any:
    """The same parameter, which leaves to typer only what must be converted, checked or refused."""
    validated = type(parameter).process_value

    def process_value(ctx: Any, value: Any) -> Any:
        plain = _plain(parameter, value)
        if plain is _UNREAD or (parameter.required and parameter.value_is_missing(plain)):
            return validated(parameter, ctx, value)
        return plain if parameter.callback is None else parameter.callback(ctx, parameter, plain)

    parameter.process_value = process_value
    return parameter


def _plain(parameter: Any, value: Any) -> Any:
    described, several = parameter.type_descriptor, parameter.multiple or parameter.nargs == -1
    kind = described.annotation
    if value is None:
        return () if several else None
    if described.parameter_info.parser is not None or described.is_file or described.is_path:
        return _UNREAD
    if several:
        texts = kind == list[str] and all(type(each) is str for each in value)
        return list(value) if texts else _UNREAD
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return next((each for each in kind if value == each.value), _UNREAD)
    same = type(value) is kind and kind in (str, *_PLAIN)
    return value if same else _UNREAD
