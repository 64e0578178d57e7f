"""Exports that are loaded when they are first used (PEP 562): for packages of which most users need a part."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def lazily(package: str, exports: Mapping[str, str]) -> Callable[[str], object]:
    """The `__getattr__` of a package: `exports` are names by module (`{".module": "Name other"}`), or the reverse."""
    homes: dict[str, str] = {}
    for key, value in exports.items():
        homes |= dict.fromkeys(value.split(), key) if key.startswith(".") else {key: value}

    def load(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(homes[name], package)
        found = getattr(module, name, module) if homes[name] == f".{name}" else getattr(module, name)
        setattr(sys.modules[package], name, found)
        return found

    return load
