"""Storage classes of events, as they are written on a command line."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from bus.stores import STORAGE, InvalidStorage, StorageClass

_AGE = re.compile(r"(\d+)([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_BYTES = re.compile(r"(\d+)(MB|GB|TB)")
_UNITS = {"MB": 1024**2, "GB": 1024**3, "TB": 1024**4}
_RIGHT = "must be like `fast=memory,replicas=1,age=1h,bytes=2GB`, with any of these options"


def read_storage(texts: Iterable[str]) -> tuple[StorageClass, ...]:
    """The storage classes that there are: the usual ones, and what the texts say. Raises InvalidStorage."""
    classes = {each.name: each for each in STORAGE}
    for text in texts:
        name, _, options = text.partition("=")
        found = classes.get(name) or StorageClass(name)
        for option in filter(None, options.split(",")):
            found = _with(found, option)
        classes[name] = found
    return tuple(classes.values())


def _with(found: StorageClass, option: str) -> StorageClass:
    name, _, value = option.partition("=")
    if option in ("memory", "file"):
        return replace(found, memory=option == "memory")
    if name == "replicas" and value.isdecimal():
        return replace(found, replicas=int(value))
    if name == "age" and (age := _AGE.fullmatch(value)):
        return replace(found, max_age=float(int(age[1]) * _SECONDS[age[2]]))
    if name == "bytes" and (size := _BYTES.fullmatch(value)):
        return replace(found, max_bytes=int(size[1]) * _UNITS[size[2]])
    raise InvalidStorage(found.name, f"{_RIGHT}; `{option}` is none")
