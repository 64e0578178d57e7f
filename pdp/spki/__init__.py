"""Capabilities: signed certificates of who may do what, and the reduction of their chains to one."""

from pdp.spki.authority import Authority, Grant
from pdp.spki.capability import Capability, Certificate, decode_chain, encode_chain
from pdp.spki.errors import (
    ChainRefused,
    Fault,
    InvalidCapability,
    MalformedCertificate,
    UseRefused,
)
from pdp.spki.ownership import Owners
from pdp.spki.reduction import Reduced, verify
from pdp.spki.resource import Kind, Resource, Right
from pdp.spki.revocation import Notice, Revocations
from pdp.spki.text import parse_authority, parse_chain, unparse_chain
from pdp.spki.use import Permit, Use, permit
from pdp.spki.validity import Validity
from pdp.spki.verifier import Verifier

__all__ = [
    "Authority",
    "Capability",
    "Certificate",
    "ChainRefused",
    "Fault",
    "Grant",
    "InvalidCapability",
    "Kind",
    "MalformedCertificate",
    "Notice",
    "Owners",
    "Permit",
    "Reduced",
    "Resource",
    "Revocations",
    "Right",
    "Use",
    "UseRefused",
    "Validity",
    "Verifier",
    "decode_chain",
    "encode_chain",
    "parse_authority",
    "parse_chain",
    "permit",
    "unparse_chain",
    "verify",
]
