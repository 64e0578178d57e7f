"""The words everyone in the fabric shares: requests, decisions, identities, errors. No I/O."""

from authz.crypto import Identity, PublicKey
from authz.decision import Basis, Decision, DecisionPoint, Inference, Reason
from authz.errors import AuthFabricError, InvalidRequest
from authz.request import Entity, Request

__all__ = [
    "AuthFabricError", "Basis", "Decision", "DecisionPoint", "Entity", "Identity", "Inference",
    "InvalidRequest", "PublicKey", "Reason", "Request",
]  # fmt: skip
