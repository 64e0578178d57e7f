"""Policies from a folder, and what decides by them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import yaml

from authz import Decision, Entity, Request

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # py-abac's import alone emits dozens of deprecations
    from py_abac import PDP, AccessRequest, Policy
    from py_abac.storage.memory import MemoryStorage


class PyAbac:
    """Decides by py-abac itself."""

    def __init__(self, policies: Sequence[object]) -> None:
        storage = MemoryStorage()
        for policy in policies:
            storage.add(Policy.from_json(policy))
        self._pdp = PDP(storage)

    async def decide_many(self, requests: Sequence[Request]) -> list[Decision]:
        return [Decision(self._pdp.is_allowed(_access_request(request))) for request in requests]


def load_engine(folder: Path) -> PyAbac:
    """What decides by the policies in the folder."""
    return PyAbac(
        [policy for file in sorted(folder.glob("*.yaml")) for policy in yaml.safe_load(file.read_text())]
    )


def _access_request(request: Request) -> object:
    def entity(entity: Entity) -> dict[str, object]:
        return {"id": entity.id, "attributes": entity.attributes}

    return AccessRequest.from_json(
        {
            "subject": entity(request.subject),
            "resource": entity(request.object),
            "action": entity(request.action),
            "context": request.context,
        }
    )
