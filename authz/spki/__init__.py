"""Capabilities: signed certificates of who may do what, and the reduction of their chains to one."""

from typing import TYPE_CHECKING

from authz.lazy import lazily

if TYPE_CHECKING:
    from authz.spki.authority import Authority, Grant
    from authz.spki.capability import Capability, Certificate, decode_chain, encode_chain
    from authz.spki.errors import (
        ChainRefused,
        Fault,
        InvalidCapability,
        MalformedCertificate,
        UseRefused,
    )
    from authz.spki.ownership import Owners
    from authz.spki.reduction import Reduced, verify
    from authz.spki.resource import Kind, Resource, Right
    from authz.spki.revocation import Notice, Revocations
    from authz.spki.text import parse_authority, parse_chain, unparse_chain
    from authz.spki.use import Permit, Use, permit
    from authz.spki.validity import Validity
    from authz.spki.verifier import Verifier

__all__ = [
    "Authority", "Capability", "Certificate", "ChainRefused", "Fault", "Grant", "InvalidCapability", "Kind",
    "MalformedCertificate", "Notice", "Owners", "Permit", "Reduced", "Resource", "Revocations", "Right",
    "Use", "UseRefused", "Validity", "Verifier", "decode_chain", "encode_chain", "parse_authority",
    "parse_chain", "permit", "unparse_chain", "verify",
]  # fmt: skip

__getattr__ = lazily(
    __name__,
    {
        ".authority": "Authority Grant",
        ".capability": "Capability Certificate decode_chain encode_chain",
        ".errors": "ChainRefused Fault InvalidCapability MalformedCertificate UseRefused",
        ".ownership": "Owners",
        ".reduction": "Reduced verify",
        ".resource": "Kind Resource Right",
        ".revocation": "Notice Revocations",
        ".text": "parse_authority parse_chain unparse_chain",
        ".use": "Permit Use permit",
        ".validity": "Validity",
        ".verifier": "Verifier",
    },
)
