"""What follows from conditions: whether one covers another, excludes it, or can hold at all, and an example."""

from authz.predicate.reasoning.implication import conjunction, consistent, covers, disjoint, satisfiable
from authz.predicate.reasoning.witness import Witness, compile_witness

__all__ = [
    "Witness", "compile_witness", "conjunction", "consistent", "covers", "disjoint", "satisfiable",
]  # fmt: skip
