"""Bundles: policy files packed, signed, kept, and read into a policy set."""

from pdp.bundle.bundle import Bundle, BundleRefused, File, FileKind
from pdp.bundle.bundle_store import (
    BundleCache,
    read_bundle,
    read_cases,
    read_entities,
    read_folder,
    write_whole,
)
from pdp.bundle.entities import Entities, keys_of
from pdp.bundle.entity_rows import CSV_KINDS, ID, InvalidRow, csv_column, csv_reader, read_json_line, shown
from pdp.bundle.manifest import Root, attribute_path
from pdp.bundle.packed_store import PackedStore
from pdp.bundle.policy_set import InvalidPolicies, PolicySet, places_of
from pdp.bundle.role_comparison import as_texts
from pdp.bundle.schema import Schema, expected_kinds, misuses

__all__ = [
    "CSV_KINDS", "ID", "Bundle", "BundleCache", "BundleRefused", "Entities", "File", "FileKind",
    "InvalidPolicies", "InvalidRow", "PackedStore", "PolicySet", "Root", "Schema", "as_texts",
    "attribute_path", "csv_column", "csv_reader", "expected_kinds", "keys_of", "misuses", "places_of",
    "read_bundle", "read_cases", "read_entities", "read_folder", "read_json_line", "shown", "write_whole",
]  # fmt: skip
