"""Options that belong together, as one type: a command takes the type, and people its options."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Any, get_type_hints


def with_option_types(command: Callable[..., None]) -> Callable[..., None]:
    """The command, with an option for each field of those of its parameters that are dataclasses."""
    hints, shown = _hints(command), []
    types: dict[str, type] = {
        name: kind for name, kind in hints.items() if isinstance(kind, type) and is_dataclass(kind)
    }
    for name, parameter in inspect.signature(command).parameters.items():
        if name in types:
            known = _hints(types[name])
            parts = inspect.signature(types[name]).parameters.values()
            shown += [each.replace(annotation=known[each.name]) for each in parts]
        else:
            shown.append(parameter.replace(annotation=hints[name]))

    @wraps(command)
    def run(**given: object) -> None:
        for name, kind in types.items():
            given[name] = kind(**{each.name: given.pop(each.name) for each in fields(kind)})
        command(**given)

    keyword = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in shown]
    run.__signature__ = inspect.Signature(keyword)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in keyword}
    return run


def _hints(of: object) -> dict[str, Any]:
    return get_type_hints(of, include_extras=True)
