"""Rights to decide, as roots give them to replicas."""

from __future__ import annotations

from time import time

from authz import Identity
from authz.spki import Capability, Certificate, Validity, parse_authority
from pdp.replica.answer_authority import AnswerAuthority


def right(root: Identity, holder: Identity, objects: str = "*", **validity: int) -> Certificate:
    """The right to decide about some objects."""
    authority = parse_authority(f"object: {objects}\naction: decide")
    return Capability(root.public, holder.public, False, authority, Validity(**validity)).sign(root)


def warrant(
    root: Identity, objects: str = "*", holder: Identity | None = None, **validity: int
) -> AnswerAuthority:
    """A replica's key with such a right."""
    identity = holder or Identity.generate()
    return AnswerAuthority(identity, [right(root, identity, objects, **validity)], time())
