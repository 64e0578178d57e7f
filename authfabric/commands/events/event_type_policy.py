"""`authfabric type policy`: what the owner of a type says about who may use it."""

from __future__ import annotations

from pathlib import Path
from time import time
from typing import Annotated

import typer

from authfabric.commands.events.type_errors import type_errors
from authfabric.commands.policies.push import Force, reason_of
from authfabric.files import NetworkKey, find_url, read_network_key, read_type
from authfabric.terminal import Json, SignerKey, Url, out, passphrase, print_json, run
from bus.identity import load_key
from bus.nats import connect
from pdp.bundle import Bundle, PolicySet
from pdp.lint import examine, justify, read_tested
from pubsub_core.errors import TypeRefused
from pubsub_core.stores import TypeStore
from pubsub_core.types import MAX_POLICY_BYTES, Catalogue, OwnerPolicy, sign_policy


def policy(
    definition: Annotated[Path, typer.Argument(help="The signed definition of the type.")],
    key: SignerKey,
    folder: Annotated[
        Path | None,
        typer.Argument(help="The folder with its policies, rules and roles; none: nothing more is said."),
    ] = None,
    force: Force = None,
    network_key: NetworkKey = None,
    url: Url = None,
    json: Json = False,
) -> None:
    """Say, as the owner of a type, who may use it and how: at every broker that carries it, whatever its domain.

    Both must permit: this policy, and that of the domain whose broker is asked. What `policy push` refuses is refused.
    """
    given = reason_of(force)
    with type_errors(json):
        kind, owner = read_type(definition).definition, load_key(key, passphrase.known)
        bundle, reason = _examined(folder, given) if folder is not None else (Bundle(), "")
        packed = bundle.pack() if folder is not None else b""
        if len(packed) > MAX_POLICY_BYTES:
            raise TypeRefused(
                kind.name, f"its policy has {len(packed)} bytes: at most {MAX_POLICY_BYTES} travel"
            )
        if str(owner.public) != kind.owner:
            raise TypeRefused(kind.name, "only its owner can say who may use it: sign with the owner's key")
        data = sign_policy(OwnerPolicy(kind.id, time(), packed, reason), owner)
        run(_publish(find_url(url), data, read_network_key(network_key)))
    said = f"{len(bundle.files)} file{'s' * (len(bundle.files) != 1)}" if packed else "nothing more"
    if json:
        print_json({"type": kind.name, "files": [each.path for each in bundle.files], "forced": reason})
    else:
        out.print(f"the owner of {kind.name} says {said} about it", highlight=False)


def _examined(folder: Path, force: str) -> tuple[Bundle, str]:
    """The policies of a folder, and the reason to record with them. Raises what `policy push` refuses."""
    bundle = read_tested(folder)
    policies = PolicySet.read(bundle)
    policies.engine()  # what cannot be compiled is refused here, not by every broker
    return bundle, justify(examine(bundle, policies), force)


async def _publish(url: str, data: bytes, network: bytes) -> None:
    async with connect(url, name="type") as bus:
        await TypeStore(bus, Catalogue(), network).publish_policy(data)
