"""What a predicate means, said a second time and as plainly as possible, to check the compiler against."""

from __future__ import annotations

import fnmatch
import ipaddress
import json
import operator
import re

from authz import Request
from authz import predicate as p

ORDERS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def holds(term: p.Predicate | p.Literal, request: Request) -> bool:
    match term:
        case p.Literal():
            return holds(term.comparison, request) is term.holds
        case p.And():
            return all(holds(each, request) for each in term.terms)
        case p.Or():
            return any(holds(each, request) for each in term.terms)
        case p.Not():
            return not holds(term.term, request)
    value = read(term.path, request)
    if isinstance(term, p.Relate):
        return relate(value, term.op, read(term.other, request))
    return value is not None and test(term, value)


def read(path: p.Path, request: Request) -> object:
    value = getattr(request, path.root)
    if path.root != "context":
        value = value.attributes if path.keys else value.id
    for key in path.keys:
        try:
            value = value[key] if isinstance(value, dict if isinstance(key, str) else list) else None
        except (KeyError, IndexError):
            return None
    return value


def kind(value: object) -> str:
    if isinstance(value, float) and value != value:
        return "none"
    for name, types in (
        ("boolean", bool),
        ("number", (int, float)),
        ("string", str),
        ("list", list),
        ("object", dict),
    ):
        if isinstance(value, types):
            return name
    return "none"


def same(left: object, right: object) -> bool:
    if kind(left) != kind(right):
        return False
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
    return left == right


def is_scalar(value: object) -> bool:
    return kind(value) in ("string", "number", "boolean")


def among(value: object, values: object) -> bool:
    return any(same(value, each) for each in values)


def test(term: p.Comparison, value: object) -> bool:
    match term:
        case p.Exists():
            return True
        case p.Kind():
            return kind(value) == term.kind
        case p.EqualDocument():
            return same(value, json.loads(term.json))
        case p.Order():
            return kind(value) == kind(term.value) and ORDERS[term.op](value, term.value)
        case p.In():
            return among(value, term.values)
        case p.Subset():
            return kind(value) == "list" and all(among(each, term.values) for each in value)
        case p.Overlaps():
            return kind(value) == "list" and any(among(each, term.values) for each in value)
        case p.Names():
            heads = (
                [each.split("(")[0] for each in value if isinstance(each, str)]
                if kind(value) == "list"
                else []
            )
            return any(each in term.values for each in heads)
        case p.Equal(fold=False):
            return same(value, term.value)
    return isinstance(value, str) and test_text(term, value)


def test_text(term: p.Comparison, text: str) -> bool:
    match term:
        case p.Glob():
            return fnmatch.fnmatchcase(text, term.pattern)
        case p.Regex():
            return re.search(term.pattern, text) is not None
        case p.Cidr():
            try:
                return ipaddress.ip_address(text) in ipaddress.ip_network(term.network)
            except ValueError:
                return False
    part = term.value
    if not isinstance(part, str):
        return same(text, part)
    if term.fold:
        text, part = text.lower(), part.lower()
    match term:
        case p.Equal():
            return text == part
        case p.Prefix():
            return text[: len(part)] == part
        case p.Suffix():
            return text[len(text) - len(part) :] == part if len(part) <= len(text) else False
        case p.Contains():
            return text.find(part) >= 0
    raise AssertionError(term)


def relate(left: object, op: str, right: object) -> bool:
    if left is None or right is None:
        return False
    if op == "==":
        return same(left, right)
    if op in ORDERS:
        return kind(left) == kind(right) and kind(left) in ("number", "string") and ORDERS[op](left, right)
    if op == "in":
        return isinstance(right, list) and among(left, right)
    if not isinstance(left, list) or not isinstance(right, list):
        return False
    found = [is_scalar(each) and among(each, right) for each in left]
    return all(found) if op == "subset" else any(found)
