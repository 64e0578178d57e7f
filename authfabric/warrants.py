"""The rights of replicas: read from files, or given by whoever runs a fabric of their own."""

from __future__ import annotations

from pathlib import Path
from time import time
from typing import Annotated

import typer

from authfabric import passphrase
from authfabric.capability_files import read, replace
from authfabric.keys import load_or_make, own_identity, policy_key_file
from authz import Identity
from authz.errors import InvalidKey
from authz.spki import Capability, Certificate, Validity, parse_authority, parse_chain, unparse_chain
from bus.keystore import load_key
from pdp.warrant import Warrant

LASTS_SECONDS = 366 * 24 * 3600
"""How long a right lasts that is given at each start anew."""

Key = Annotated[
    Path | None,
    typer.Option(
        "--key",
        help="The private key to answer by, so that PEPs can tell who answers. Default: a new one, empowered by your"
        " own key if you have one.",
    ),
]
Chain = Annotated[
    Path | None,
    typer.Option(
        "--chain",
        help="The capabilities that let this key decide. Default: the file of the key, ending in .cap.",
    ),
]


def find_warrant(key: Path | None, chain: Path | None) -> Warrant | None:
    """The right that files give, or this user's own key for the occasion; None if there is neither.

    Raises KeyFileRefused, InvalidKey, FileRefused, InvalidSyntax or MalformedCertificate.
    """
    if key is None:
        if chain is not None:
            raise InvalidKey("`--chain` needs `--key`: the key that the capabilities were issued to")
        if not policy_key_file().exists():
            return None
        holder = Identity.generate()
        return Warrant(holder, [empower(holder, own_identity())])
    certificates = read(chain or key.with_suffix(".cap"), parse_chain)
    identity = load_key(key, passphrase.known)
    subject = certificates[-1].unverified().subject
    if subject != identity.public:
        raise InvalidKey(f"the capabilities were issued to `{subject}`, not to the key in `{key}`")
    return Warrant(identity, certificates)


def give_warrant(folder: Path, name: str, root: Identity) -> list[str]:
    """Let a replica decide everything, by a key that it keeps; returns the words that tell it so."""
    key = folder / f"{name}.key"
    chain = key.with_suffix(".cap")
    replace(chain, unparse_chain((empower(load_or_make(None, key), root),)))
    return ["--key", str(key), "--chain", str(chain)]


def empower(holder: Identity, root: Identity) -> Certificate:
    """The right to decide everything, by the word of a root."""
    now = int(time())
    everything = parse_authority("object: *\naction: decide")
    validity = Validity(now - 60, now + LASTS_SECONDS)  # clocks differ a little
    return Capability(root.public, holder.public, False, everything, validity).sign(root)
