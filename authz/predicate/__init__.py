"""The one algebra of conditions: comparisons of attributes joined by and, or, not; its meaning, its laws."""

from authz.predicate.compiler import EVENT, REQUEST, Layout, compile_predicate, compile_sieve
from authz.predicate.negation import negation, strict
from authz.predicate.reasoning import conjunction, consistent, covers, disjoint, satisfiable
from authz.predicate.terms import (
    FALSE,
    TRUE,
    And,
    AnyComparison,
    Certificate,
    Cidr,
    Comparison,
    Contains,
    Equal,
    EqualDocument,
    Exists,
    Glob,
    In,
    Kind,
    KindName,
    Literal,
    Names,
    Not,
    Or,
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
)
from authz.predicate.traversal import comparisons, conjuncts, depth, map_comparisons, map_paths, paths
from authz.predicate.widening import Hidden, widen

__all__ = [
    "EVENT", "FALSE", "REQUEST", "TRUE", "And", "AnyComparison", "Certificate", "Cidr", "Comparison",
    "Contains", "Equal", "EqualDocument", "Exists", "Glob", "Hidden", "In", "Kind", "KindName", "Layout",
    "Literal", "Names", "Not", "Or", "Order", "Overlaps", "Path", "Predicate", "Prefix", "Regex", "Relate",
    "Scalar", "Subset", "Suffix", "comparisons", "compile_predicate", "compile_sieve", "conjunction",
    "conjuncts", "consistent", "covers", "depth", "disjoint", "map_comparisons", "map_paths", "negation", "paths",
    "satisfiable", "strict", "widen",
]  # fmt: skip
