"""What a server can have of those who connect to it, if it chooses the nonce: nothing that means anything."""

from __future__ import annotations

import re

import pytest

from authz import Identity, PublicKey
from authz.errors import InvalidSignature
from tests.false_server import lured
from tests.mutations.mutation import ROOT

PACKAGES = ("authz", "bus", "pdp", "pep", "pubsub_core", "sdp_cache", "spark_eval", "authfabric")


def prefixes() -> list[str]:
    """The beginnings of all that the project signs, read from its code."""
    found = set[str]()
    for package in PACKAGES:
        for file in (ROOT / package).rglob("*.py"):
            text = file.read_text()
            found.update(re.findall(r'b"(authfabric [^"]*)\\0"', text))
            found.update(f"authfabric {purpose} 1" for purpose in re.findall(r'\bSeal\(\s*"([^"]+)"', text))
    return sorted(found)


async def test_no_server_gets_the_signature_of_an_identity_over_what_it_chose():
    """Neither the bare text nor one that begins as something else that is signed."""
    identity, known = Identity.generate(), prefixes()
    assert {"authfabric capability 1", "authfabric broker welcome 1"} <= set(known)
    for nonce in ("anything", *(f"{prefix}\0anything" for prefix in known)):
        shown = await lured(identity, nonce)
        with pytest.raises(InvalidSignature):
            identity.public.verify(shown.signature, nonce.encode())
        PublicKey.parse(shown.key).verify(shown.signature, nonce.encode())
