"""`authfabric cap keygen|issue|delegate`: make keys, issue capabilities and pass them on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from authfabric.commands.trust.cap_options import Out, Revoked, errors, owner_of_all, time_of
from authfabric.commands.trust.capability_view import describe_certificate
from authfabric.files import read_file, read_revocations, write_new
from authfabric.terminal import Json, SignerKey, passphrase, print_json, seconds_of
from authz import Identity
from authz.spki import (
    Authority,
    Capability,
    Certificate,
    ChainRefused,
    Fault,
    InvalidCapability,
    Reduced,
    Validity,
    parse_authority,
    parse_chain,
    unparse_chain,
    verify,
)
from authz.spki.reduction import combine
from authz.spki.validity import Recheck
from bus.identity import create_key, load_key, load_public_key

To = Annotated[str, typer.Option("--to", help="The subject: a public key, or the file that holds it.")]
Lines = Annotated[
    list[str] | None,
    typer.Argument(metavar="[LINE]...", help="What is granted, line by line: 'type: a.*' 'action: publish'."),
]
Grants = Annotated[
    Path | None,
    typer.Option("--grants", help="A file with what is granted, instead of lines; - reads stdin."),
]
Delegate = Annotated[bool, typer.Option("--delegate", help="Let the subject pass it on.")]
Start = Annotated[
    str | None, typer.Option("--from", help="When it begins, 2030-01-31T23:59:59Z. Default: now.")
]
For = Annotated[str, typer.Option("--for", help="How long it lasts: 90s, 15m, 8h, 30d, or `ever`.")]
Online = Annotated[
    int | None,
    typer.Option("--recheck", min=1, help="Maximum age, in seconds, of the signer's newest revocation list."),
]


def keygen(
    name: Annotated[Path, typer.Argument(help="Makes NAME.key, for you alone, and NAME.pub, for everybody.")],
    unencrypted: Annotated[
        bool, typer.Option("--unencrypted", help="Leave the key without a passphrase.")
    ] = False,
    json: Json = False,
) -> None:
    """Make a key. Its passphrase is read from $AUTHFABRIC_PASSPHRASE or typed."""
    with errors():
        identity = Identity.generate()
        create_key(name.with_name(name.name + ".key"), identity, None if unencrypted else passphrase.chosen())
        write_new(name.with_name(name.name + ".pub"), f"{identity.public}\n")
    if json:
        print_json({"public_key": str(identity.public), "encrypted": not unencrypted})
    else:
        typer.echo(identity.public)


def issue(
    key: SignerKey,
    to: To,
    lines: Lines = None,
    grants: Grants = None,
    delegate: Delegate = False,
    start: Start = None,
    lasts: For = "90d",
    recheck: Online = None,
    output: Out = None,
    json: Json = False,
) -> None:
    """Issue a capability over what you own."""
    with errors():
        issuer = load_key(key, passphrase.known)
        validity = _validity(issuer, start, lasts, recheck)
        subject = load_public_key(to)
        capability = Capability(issuer.public, subject, delegate, _granted(lines, grants), validity)
        _deliver((capability.sign(issuer),), output, json)


def delegate(
    chain: Annotated[Path, typer.Option("--chain", help="The chain that gives you what you pass on.")],
    key: SignerKey,
    to: To,
    lines: Lines = None,
    grants: Grants = None,
    delegate: Delegate = False,
    start: Start = None,
    lasts: For = "90d",
    recheck: Online = None,
    blanket: Annotated[
        bool,
        typer.Option(
            "--blanket", help="Grant more than you hold now: what you are granted later counts too."
        ),
    ] = False,
    revoked: Revoked = None,
    output: Out = None,
    json: Json = False,
) -> None:
    """Pass on a part of what a chain grants you, and write the longer chain."""
    with errors():
        issuer = load_key(key, passphrase.known)
        held_by = read_file(chain, parse_chain)
        validity = _validity(issuer, start, lasts, recheck)
        subject = load_public_key(to)
        passed = Capability(issuer.public, subject, delegate, _granted(lines, grants), validity)
        held = verify(held_by, owner_of_all(held_by), time_of(None), read_revocations(revoked or []))
        _check_held(held, passed, blanket)
        _deliver((*held_by, passed.sign(issuer)), output, json)


def _granted(lines: list[str] | None, file: Path | None) -> Authority:
    if bool(lines) == bool(file):
        raise InvalidCapability("grants", "say what is granted, either in lines or in a file")
    return read_file(file, parse_authority) if file else parse_authority("\n".join(lines or []))


def _validity(issuer: Identity, start: str | None, lasts: str, recheck: int | None) -> Validity:
    first = time_of(start)
    rechecks = (Recheck(issuer.public, recheck),) if recheck else ()
    if lasts == "ever":
        return Validity(first, None, rechecks)
    seconds = seconds_of(lasts)
    if seconds is None:
        raise InvalidCapability("--for", f"`{lasts}` must be like 90s, 15m, 8h or 30d, or be `ever`")
    return Validity(first, first + seconds, rechecks)


def _check_held(held: Reduced, passed: Capability, blanket: bool) -> None:
    """Raise ChainRefused unless the chain gives what is about to be passed on."""
    link = len(held.links) + 1
    combine(held.capability, passed, link)
    if not blanket and not held.capability.authority.covers(passed.authority):
        problem = "would grant more than the chain does: grant less, or say --blanket"
        raise ChainRefused(link, Fault.WIDENED, problem)


def _deliver(chain: tuple[Certificate, ...], output: Path | None, json: bool) -> None:
    text = unparse_chain(chain)
    if output is not None:
        write_new(output, text)
    if json:
        print_json({**describe_certificate(chain[-1]), "text": text})
    elif output is None:
        typer.echo(text, nl=False)
