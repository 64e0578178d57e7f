"""`authfabric cap revoke`: take capabilities back."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from authfabric.commands.trust.cap_options import errors
from authfabric.commands.trust.capability_view import describe_notice
from authfabric.files import CONNECT_SECONDS, FileRefused, find_url, read_file, replace_file, write_new
from authfabric.terminal import Json, SignerKey, Url, out, passphrase, print_json, run
from authz import Identity
from authz.spki import (
    Certificate,
    InvalidCapability,
    Notice,
    encode_chain,
    parse_chain,
)
from authz.spki.text import parse_notice, unparse_notice
from bus.errors import NoResponders
from bus.feeds import publish_notice
from bus.identity import load_key
from bus.nats import ask_revocation, connect


def revoke(
    key: SignerKey,
    list_: Annotated[Path, typer.Option("--list", help="Your revocation list, made if it does not exist.")],
    file: Annotated[
        Path | None,
        typer.Argument(
            help="The certificate to take back, or a chain whose last one is meant. None: renew the list."
        ),
    ] = None,
    event: Annotated[
        Path | None, typer.Option("--event", help="Write a revocation event there too, to be sent at once.")
    ] = None,
    publish: Annotated[
        bool,
        typer.Option("--publish", help="Let everyone on the bus know: whoever relies on it stops at once."),
    ] = False,
    proof: Annotated[
        Path | None,
        typer.Option(
            "--proof",
            help="A chain from an owner that leads to your key, or that you can take back, to be shown with "
            "--publish. Default: the chain to take back.",
        ),
    ] = None,
    url: Url = None,
    json: Json = False,
) -> None:
    """Take a certificate back: sign the next revocation list."""
    with errors():
        issuer = load_key(key, passphrase.known)
        chain = () if file is None else read_file(file, parse_chain)
        shown = chain if proof is None else read_file(proof, parse_chain)
        taken = chain[-1:]
        for certificate in taken:
            _check_revoker(issuer, certificate)
        notice = _next_list(list_, issuer, taken)
        replace_file(list_, unparse_notice(notice))
        if event is not None and taken:
            write_new(event, unparse_notice(Notice.event(issuer, taken[0], notice.at)))
    if publish:
        run(_publish(find_url(url), notice, encode_chain(shown) if shown else b""))
    if json:
        print_json(describe_notice(notice))
    else:
        out.print(f"list {notice.number} of {issuer.public}: {len(notice.revoked)} revoked", highlight=False)


async def _publish(url: str, notice: Notice, chain: bytes) -> None:
    """Through the access control service where there is one: elsewhere whoever connects may write to the store."""
    async with connect(url, name="cap", connect_seconds=CONNECT_SECONDS) as bus:
        try:
            await ask_revocation(bus, notice, chain)
        except NoResponders:
            await publish_notice(bus, notice)


def _check_revoker(issuer: Identity, certificate: Certificate) -> None:
    capability = certificate.unverified()
    if issuer.public not in (capability.issuer, *(each.key for each in capability.validity.rechecks)):
        raise InvalidCapability(
            "--key", f"only `{capability.issuer}` can revoke this, and you are `{issuer.public}`"
        )


def _next_list(path: Path, issuer: Identity, taken: tuple[Certificate, ...]) -> Notice:
    now = int(time.time())
    if not path.exists():
        return Notice.first(issuer, now, taken)
    last = read_file(path, parse_notice)
    if last.issuer != issuer.public or last.number is None:
        raise FileRefused(path, f"must be a revocation list of `{issuer.public}`")
    last.verify()
    return last.following(issuer, now, taken)
