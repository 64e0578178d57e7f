"""py-abac itself, asked the fabric's way: slow, and the judge of whether the engine means the same."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping

from authz.errors import AuthFabricError
from authz.request import Entity, Request
from pdp.abac.policy import Algorithm

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its schemas and its ObjectPath parser warn at import, 47 times
    from py_abac import PDP, AccessRequest, EvaluationAlgorithm
    from py_abac import Policy as OraclePolicy
    from py_abac.storage.memory import MemoryStorage


class OracleError(AuthFabricError):
    """py-abac could not read a policy or decide a request; `problem` is what it said."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"py-abac failed: {problem}")
        self.problem = problem


class Oracle:
    """Policies as py-abac reads and decides them. Not for several threads: py-abac is not."""

    def __init__(self, policies: Iterable[Mapping[str, object]], algorithm: Algorithm) -> None:
        storage = MemoryStorage()
        try:
            for policy in policies:
                # py-abac has no obligations, and they bear on no effect.
                known = {name: value for name, value in policy.items() if name != "obligations"}
                storage.add(OraclePolicy.from_json(known))
        except Exception as error:
            raise OracleError(f"{type(error).__name__}: {error}") from error
        self._pdp = PDP(storage, EvaluationAlgorithm(algorithm.value.replace("-", "_")))

    def allows(self, request: Request) -> bool:
        """Whether py-abac would allow this. Raises OracleError where it breaks down."""
        try:
            return bool(self._pdp.is_allowed(AccessRequest.from_json(_asked(request))))
        except Exception as error:
            raise OracleError(f"{type(error).__name__}: {error}") from error


def _asked(request: Request) -> dict[str, object]:
    return {
        "subject": _entity(request.subject),
        "resource": _entity(request.object),
        "action": _entity(request.action),
        "context": dict(request.context),
    }


def _entity(entity: Entity) -> dict[str, object]:
    return {"id": entity.id, "attributes": dict(entity.attributes)}
