"""Random predicates and requests over a world so small that every comparison is often true, often false."""

from __future__ import annotations

import json
from pathlib import Path as FilePath

from hypothesis import strategies as st

import authz.predicate
from authz import Entity, Request
from authz.predicate import (
    And,
    Cidr,
    Contains,
    Equal,
    EqualDocument,
    Exists,
    Glob,
    In,
    Kind,
    Literal,
    Names,
    Not,
    Or,
    Order,
    Overlaps,
    Path,
    Prefix,
    Regex,
    Relate,
    Subset,
    Suffix,
)
from authz.predicate.text import WORDS, PredicateReader
from authz.syntax import Language

parse_predicate = Language(
    FilePath(authz.predicate.__file__).with_name("text.lark"), "predicate", PredicateReader(), WORDS
).parse
"""A condition alone: rules and capabilities read theirs by the same grammar."""

TEXTS = ["", "a", "ab", "abc", "b", "B", "10.0.0.1", "10.0.0.9", "10.1.0.1", "::1", "\U0010ffff", "a\0"]
NUMBERS = [0, 1, 1.0, 2, 2.5, -1, 2**53 + 1]
SCALARS = [*TEXTS, *NUMBERS, True, False]
LISTS = [[], ["a"], ["a", "b"], [1], [True, "a"], [["a"], None], [2.5, "b"]]
OBJECTS = [{}, {"a": 1}, {"a": True}, {"a": {"b": "a"}}, {"a": ["a", 1]}]
VALUES = [None, *SCALARS, *LISTS, *OBJECTS, float("nan"), b"a"]

PATHS = [
    Path("subject"),
    Path("object"),
    Path("subject", ("a",)),
    Path("object", ("a",)),
    Path("context", ("a",)),
    Path("context", ("a", "a")),
    Path("context", ("a", 0)),
    Path("context", ("a", -1)),
]

scalars = st.sampled_from(SCALARS)
texts = st.sampled_from(TEXTS)
numbers = st.sampled_from(NUMBERS)
paths = st.sampled_from(PATHS)
some = st.lists(scalars, max_size=4).map(tuple)


def comparisons_on(paths: st.SearchStrategy[Path]) -> st.SearchStrategy:
    return st.one_of(ordered_on(paths), networks_on(paths), opaque_on(paths, st.booleans()))


def ordered_on(paths: st.SearchStrategy[Path]) -> st.SearchStrategy:
    return st.one_of(
        kinds_on(paths),
        st.builds(Equal, paths, scalars),
        st.builds(Order, paths, st.sampled_from(["<", "<=", ">", ">="]), st.one_of(texts, numbers)),
        st.builds(In, paths, some),
        st.builds(Prefix, paths, texts),
    )


def networks_on(paths: st.SearchStrategy[Path]) -> st.SearchStrategy:
    networks = ["10.0.0.0/8", "10.0.0.0/24", "10.0.0.1/32", "10.1.0.0/16", "0.0.0.0/0", "::/0", "::1/128"]
    return st.one_of(kinds_on(paths), st.builds(Cidr, paths, st.sampled_from(networks)))


def kinds_on(paths: st.SearchStrategy[Path]) -> st.SearchStrategy:
    kinds = st.sampled_from(["string", "number", "boolean", "list", "object"])
    return st.one_of(st.builds(Exists, paths), st.builds(Kind, paths, kinds))


def opaque_on(paths: st.SearchStrategy[Path], folds: st.SearchStrategy[bool]) -> st.SearchStrategy:
    relations = st.sampled_from(["==", "<", "<=", ">", ">=", "in", "subset", "overlaps"])
    return st.one_of(
        st.builds(Equal, paths, texts, folds),
        st.builds(EqualDocument, paths, st.sampled_from([*LISTS, *OBJECTS]).map(json.dumps)),
        st.builds(Prefix, paths, texts, folds),
        st.builds(Suffix, paths, texts, folds),
        st.builds(Contains, paths, texts, folds),
        st.builds(Glob, paths, st.sampled_from(["*", "a*", "*b", "[ab]", "?", "a?c", "10.*.1"])),
        st.builds(Regex, paths, st.sampled_from(["a", "^a", "b$", "^[0-9.]+$", "x|b"])),
        st.builds(Subset, paths, some),
        st.builds(Overlaps, paths, some),
        st.builds(Names, paths, st.lists(texts, max_size=3).map(tuple)),
        st.builds(Relate, paths, relations, paths),
    )


comparisons = comparisons_on(paths)
literals = st.builds(Literal, comparisons, st.booleans())


def predicates_of(comparisons: st.SearchStrategy) -> st.SearchStrategy:
    return st.recursive(
        comparisons,
        lambda inner: st.one_of(
            st.builds(Not, inner),
            st.builds(And, st.lists(inner, max_size=3).map(tuple)),
            st.builds(Or, st.lists(inner, max_size=3).map(tuple)),
        ),
        max_leaves=6,
    )


predicates = predicates_of(comparisons)

values = st.sampled_from(VALUES)
attributes = st.dictionaries(st.just("a"), values, max_size=1)
requests = st.builds(
    Request,
    st.builds(Entity, texts, attributes),
    st.builds(Entity, texts, attributes),
    st.builds(Entity, st.just("read")),
    attributes,
)
