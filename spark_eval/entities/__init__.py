"""Entities read from files and tables, checked, and gathered into the population of a plan."""

from spark_eval.entities.gathering import Gathered, count_of
from spark_eval.entities.input_warnings import oversights
from spark_eval.entities.mask_encoding import decode, encode_keys, encode_masks
from spark_eval.entities.mask_tasks import MaskWork
from spark_eval.entities.population import (
    Before,
    Inputs,
    Marks,
    Population,
    attribute_types,
    check_joins,
    populate,
)
from spark_eval.entities.store import SPARK_ERRORS, BundledEntities, Entities, StoredEntities, first_line

__all__ = [
    "SPARK_ERRORS", "Before", "BundledEntities", "Entities", "Gathered", "Inputs", "Marks", "MaskWork",
    "Population", "StoredEntities", "attribute_types", "check_joins", "count_of", "decode", "encode_keys",
    "encode_masks", "first_line", "oversights", "populate",
]  # fmt: skip
