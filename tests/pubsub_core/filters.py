"""Filters and events drawn at random, over a few attributes, so that they often meet."""

from __future__ import annotations

from hypothesis import strategies as st

from authz.predicate import And, Equal, Exists, In, Not, Or, Order, Path, Prefix, Regex

NUMBER, OTHER, TEXT, GEO = (Path("event", (name,)) for name in ("n", "m", "t", "g"))
LAT = Path("event", ("g", "lat"))
numbers = st.one_of(
    st.integers(-20, 20), st.floats(-20, 20, allow_nan=False), st.sampled_from([1.7e308, -1.7e308, 2**60])
)
texts = st.text("ab", max_size=4)

comparisons = st.one_of(
    st.builds(Equal, st.sampled_from([NUMBER, OTHER, LAT]), numbers),
    st.builds(Equal, st.just(NUMBER), st.booleans()),
    st.builds(Equal, st.just(TEXT), texts, st.booleans()),
    st.builds(Order, st.sampled_from([NUMBER, OTHER, LAT]), st.sampled_from(["<", "<=", ">", ">="]), numbers),
    st.builds(Order, st.just(TEXT), st.sampled_from(["<", "<=", ">", ">="]), texts),
    st.builds(In, st.just(NUMBER), st.lists(numbers, max_size=3).map(tuple)),
    st.builds(Prefix, st.just(TEXT), texts, st.booleans()),
    st.builds(Regex, st.just(TEXT), st.sampled_from(["a+b", "^b"])),
    st.builds(Exists, st.sampled_from([NUMBER, TEXT])),
)
filters = st.recursive(
    comparisons,
    lambda inner: st.one_of(
        st.builds(And, st.lists(inner, max_size=3).map(tuple)),
        st.builds(Or, st.lists(inner, max_size=3).map(tuple)),
        st.builds(Not, inner),
    ),
    max_leaves=6,
)
events = st.fixed_dictionaries(
    {},
    optional={
        "n": st.one_of(numbers, st.booleans()),
        "m": numbers,
        "t": texts,
        "g": st.fixed_dictionaries({"lat": numbers, "lon": numbers}),
    },
)
