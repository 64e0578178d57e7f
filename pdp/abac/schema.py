"""The JSON Schema of files with attribute policies: what editors complete and check while one writes."""

from __future__ import annotations

from typing import Any

import msgspec

from pdp.abac.conditions import Condition
from pdp.abac.reader import PolicyText

TITLE = "Attribute policies of authfabric"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def policy_schema() -> dict[str, Any]:
    """Made from the types that the reader reads by: what it refuses for its form, the schema refuses."""
    (policy, condition), parts = msgspec.json.schema_components(
        (PolicyText, Condition), schema_hook=_any_value, ref_template="#/$defs/{name}"
    )
    block = {"type": "object", "additionalProperties": {"$ref": "#/$defs/condition"}}
    rules = parts["Rules"]["properties"]
    for each in rules.values():
        each["anyOf"] = [block, {"type": "array", "items": block}]
    return {
        "$schema": _DIALECT,
        "title": TITLE,
        "anyOf": [policy, {"type": "array", "items": policy}],
        "$defs": {**parts, "condition": condition},
    }


def _any_value(kind: type) -> dict[str, Any]:
    """Where the reader takes any JSON value."""
    if kind is not object:
        raise NotImplementedError
    return {"description": "Any value."}
