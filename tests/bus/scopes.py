"""Scopes to test with: few different names, so that they often meet."""

from __future__ import annotations

from hypothesis import strategies as st

from bus.wire.scopes import Kind, Scope

_words = st.sampled_from(["a", "b", "New York", "*", "a,b", "50%", "x:y", "=many", "@"])
_domains = st.sampled_from(["default", "shop", "a:b", "d@e", "50%"])
_paths = st.one_of(
    st.lists(st.one_of(_words, st.just("")), min_size=1, max_size=4).map("/".join).filter(bool),
    st.lists(_words, min_size=1, max_size=3).map(lambda segments: "/" + "/".join(segments)),
    st.just("/"),
)

_prefixes = _paths.map(lambda path: path.rstrip("/") or "/")

scopes = st.one_of(
    st.just(Scope(Kind.BROADCAST)),
    st.builds(Scope, st.just(Kind.DOMAIN), _domains),
    st.builds(Scope, st.just(Kind.PREFIX), _domains, _prefixes),
    st.builds(Scope, st.just(Kind.OBJECT), _domains, _paths),
    st.builds(Scope, st.just(Kind.TUPLE), _domains, _paths, _words, _words),
)
