"""`authfabric cap keygen|issue|delegate`: make keys, issue capabilities and pass them on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from authfabric.commands.trust.cap_options import Out, Revoked, errors, owner_of_all, time_of
from authfabric.commands.trust.capability_view import describe_certificate
from authfabric.files import read_file, read_revocations, write_new
from authfabric.terminal import Json, SignerKey, passphrase, print_json, seconds_of, with_option_types
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


@dataclass(frozen=True, slots=True)
class Grant:
    """What is granted to whom, by whom and for how long."""

    key: SignerKey
    to: Annotated[str, typer.Option("--to", help="The subject: a public key, or the file that holds it.")]
    lines: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[LINE]...", help="What is granted, line by line: 'type: a.*' 'action: publish'."
        ),
    ] = None
    grants: Annotated[
        Path | None,
        typer.Option("--grants", help="A file with what is granted, instead of lines; - reads stdin."),
    ] = None
    delegate: Annotated[bool, typer.Option("--delegate", help="Let the subject pass it on.")] = False
    start: Annotated[
        str | None, typer.Option("--from", help="When it begins, 2030-01-31T23:59:59Z. Default: now.")
    ] = None
    lasts: Annotated[str, typer.Option("--for", help="How long it lasts: 90s, 15m, 8h, 30d, or `ever`.")] = (
        "90d"
    )
    recheck: Annotated[
        int | None,
        typer.Option(
            "--recheck", min=1, help="Maximum age, in seconds, of the signer's newest revocation list."
        ),
    ] = None

    def capability(self) -> tuple[Identity, Capability]:
        """The signer, and the capability that is to be signed. Raises an AuthFabricError."""
        issuer = load_key(self.key, passphrase.known)
        validity = self._validity(issuer)
        subject = load_public_key(self.to)
        return issuer, Capability(issuer.public, subject, self.delegate, self._granted(), validity)

    def _granted(self) -> Authority:
        if bool(self.lines) == bool(self.grants):
            raise InvalidCapability("grants", "say what is granted, either in lines or in a file")
        return (
            read_file(self.grants, parse_authority)
            if self.grants
            else parse_authority("\n".join(self.lines or []))
        )

    def _validity(self, issuer: Identity) -> Validity:
        first = time_of(self.start)
        rechecks = (Recheck(issuer.public, self.recheck),) if self.recheck else ()
        if self.lasts == "ever":
            return Validity(first, None, rechecks)
        seconds = seconds_of(self.lasts)
        if seconds is None:
            raise InvalidCapability("--for", f"`{self.lasts}` must be like 90s, 15m, 8h or 30d, or be `ever`")
        return Validity(first, first + seconds, rechecks)


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


@with_option_types
def issue(*, grant: Grant, output: Out = None, json: Json = False) -> None:
    """Issue a capability over what you own."""
    with errors():
        issuer, capability = grant.capability()
        _deliver((capability.sign(issuer),), output, json)


@with_option_types
def delegate(
    *,
    chain: Annotated[Path, typer.Option("--chain", help="The chain that gives you what you pass on.")],
    grant: Grant,
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
        held_by = read_file(chain, parse_chain)
        issuer, passed = grant.capability()
        held = verify(held_by, owner_of_all(held_by), time_of(None), read_revocations(revoked or []))
        _check_held(held, passed, blanket)
        _deliver((*held_by, passed.sign(issuer)), output, json)


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
