"""Whether conditions use the attributes that a manifest lists, and as what they are."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from authz.predicate import (
    AnyComparison,
    Cidr,
    Contains,
    Equal,
    EqualDocument,
    Glob,
    In,
    Kind,
    KindName,
    Names,
    Order,
    Overlaps,
    Path,
    Predicate,
    Prefix,
    Regex,
    Relate,
    Scalar,
    Subset,
    Suffix,
    comparisons,
)
from pdp.bundle.manifest import AttributeKind, Root

Schema = Mapping[Root, Mapping[str, AttributeKind]]


@dataclass(frozen=True, slots=True)
class Misuse:
    """A path that is not in the schema, or is something else there."""

    path: Path
    text: str
    unknown: bool


def misuses(predicate: Predicate, schema: Schema) -> Iterator[Misuse]:
    """Every path in the predicate that the schema does not have, or not as this."""
    for test in comparisons(predicate):
        for path in (test.path, test.other) if isinstance(test, Relate) else (test.path,):
            if path.keys and path.root in schema.keys() | _ROOTS:
                yield from _misuse(test, path, schema)


_ROOTS = frozenset({"subject", "object", "action", "context"})


def _misuse(test: AnyComparison, path: Path, schema: Schema) -> Iterator[Misuse]:
    known = next((names for root, names in schema.items() if root == path.root), {})
    name = str(path.keys[0])
    if name not in known:
        near = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean `{near[0]}`?" if near else "list it under `attributes` in bundle.yaml"
        yield Misuse(path, f"there is no attribute `{path.root}.{name}`: {hint}", True)
        return
    kind, expected = known[name], expected_kinds(test)
    if len(path.keys) > 1:
        if kind not in ("list", "object", "any"):
            yield Misuse(path, f"`{path.root}.{name}` is a {kind}, and has nothing below it", False)
    elif kind != "any" and expected and kind not in expected:
        yield Misuse(path, f"`{test}` is never true: `{path}` is a {kind}", False)


def expected_kinds(test: AnyComparison) -> frozenset[KindName]:
    """The kinds of values of which the comparison can be true; none if of any."""
    match test:
        case Equal():
            return frozenset({_kind(test.value)})
        case In():
            return frozenset(map(_kind, test.values))
        case Order():
            return frozenset({_kind(test.value)})
        case Prefix() | Suffix() | Contains() | Glob() | Regex() | Cidr():
            return frozenset({"string"})
        case Subset() | Overlaps() | Names():
            return frozenset({"list"})
        case EqualDocument():
            return frozenset({"list" if test.json.lstrip().startswith("[") else "object"})
        case Kind():
            return frozenset({test.kind})
    return frozenset()


def _kind(value: Scalar) -> KindName:
    if isinstance(value, bool):
        return "boolean"
    return "string" if isinstance(value, str) else "number"
