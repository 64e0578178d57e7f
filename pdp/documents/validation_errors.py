"""Where a decoded value does not fit the type it should have: every place, and what would be right there."""

from __future__ import annotations

import difflib
import enum
import types
import typing
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import msgspec

Place: TypeAlias = tuple[str | int, ...]
"""The way to a value: names in objects, positions in lists."""
Misfit: TypeAlias = tuple[Place, str]


def misfits(value: object, type_: Any) -> Iterator[Misfit]:
    """Nothing exactly if msgspec converts the value; else every mistake that can be told apart."""
    try:
        msgspec.convert(value, type_)
    except msgspec.ValidationError as error:
        yield from list(_inside(value, type_)) or [((), _said(str(error), value, type_))]


def _inside(value: object, type_: Any) -> Iterator[Misfit]:
    """What is wrong below the value itself, where it is clear which of the alternatives is meant."""
    several = _alternatives(type_)
    if isinstance(value, list):
        items = [typing.get_args(each)[0] for each in several if _is_list(each)]
        for number, each in enumerate(value) if len(items) == 1 else ():
            yield from _below(number, misfits(each, items[0]))
    elif isinstance(value, dict):
        structs = [each for each in several if isinstance(each, type) and issubclass(each, msgspec.Struct)]
        objects = [each for each in several if typing.get_origin(each) is dict]
        tags = {
            each.__struct_config__.tag: each for each in structs if each.__struct_config__.tag is not None
        }
        if tags:
            yield from _tagged(value, tags)
        elif len(structs) == 1 and not objects:
            yield from _fields(value, structs[0])
        elif len(objects) == 1 and not structs:
            of_key, of_value = typing.get_args(objects[0])
            for key, each in value.items():
                yield from _below(key, misfits(key, of_key))
                yield from _below(key, misfits(each, of_value))


def _tagged(value: dict[str, object], tags: dict[Any, type[msgspec.Struct]]) -> Iterator[Misfit]:
    field = str(next(iter(tags.values())).__struct_config__.tag_field)
    tag = value.get(field)
    if isinstance(tag, str) and tag in tags:
        yield from _fields(value, tags[tag])
    elif field in value:
        near = _nearest(str(tag), tags)
        yield (field,), f"there is no {field} `{tag}`" + (f": did you mean `{near}`?" if near else "")


def _fields(value: dict[str, object], struct: type[msgspec.Struct]) -> Iterator[Misfit]:
    config = struct.__struct_config__
    if config.array_like:
        return
    fields = {each.encode_name: each for each in msgspec.structs.fields(struct)}
    known = [*fields, *([str(config.tag_field)] if config.tag is not None else [])]
    meant = set[str]()
    for name in [each for each in value if each not in known] if config.forbid_unknown_fields else ():
        near = _nearest(name, [each for each in known if each not in value]) or _nearest(name, known)
        meant.add(near)
        hint = f"did you mean `{near}`?" if near else f"there are {_listed(known)}"
        yield (name,), f"there is no field `{name}` here: {hint}"
    for name, field in fields.items():
        if name in value:
            yield from _below(name, misfits(value[name], field.type))
    missing = [each for each, field in fields.items() if field.required and each not in {*value, *meant}]
    if missing:
        yield (), f"object missing required field{'s' if missing[1:] else ''} {_listed(missing)}"


def _said(error: str, value: object, type_: Any) -> str:
    """What msgspec says of the value itself, and what would be right where there is a choice of few."""
    message = error.partition(" - at `")[0]
    choices = [choice for each in _alternatives(type_) for choice in _choices(each)]
    if choices and isinstance(value, str):
        return f"`{value}` is none of {_listed(choices)}"
    return message[0].lower() + message[1:]


def _alternatives(type_: Any) -> tuple[Any, ...]:
    """The members of a union, or the type itself; without annotations."""
    origin = typing.get_origin(type_)
    if origin is typing.Annotated:
        return _alternatives(typing.get_args(type_)[0])
    if origin in (typing.Union, types.UnionType):
        return tuple(inner for each in typing.get_args(type_) for inner in _alternatives(each))
    return (type_,)


def _is_list(type_: Any) -> bool:
    """Whether it is a list of any length."""
    origin, inner = typing.get_origin(type_), typing.get_args(type_)
    return origin is list or (origin is tuple and inner[1:] == (Ellipsis,))


def _choices(type_: Any) -> Sequence[object]:
    if isinstance(type_, type) and issubclass(type_, enum.Enum):
        return [each.value for each in type_]
    return typing.get_args(type_) if typing.get_origin(type_) is typing.Literal else ()


def _below(step: str | int, found: Iterable[Misfit]) -> Iterator[Misfit]:
    return (((step, *place), text) for place, text in found)


def _nearest(name: str, names: Iterable[str]) -> str:
    return next(iter(difflib.get_close_matches(name, list(names), 1)), "")


def _listed(names: Iterable[object]) -> str:
    return ", ".join(f"`{each}`" for each in names)
