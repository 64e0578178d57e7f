"""`authfabric cap show|verify|chain`: look at capabilities, and see what chains of them prove."""

from __future__ import annotations

import re
import secrets
from pathlib import Path
from typing import Annotated

import typer

from authfabric.commands.trust.cap_options import At, Out, Revoked, errors, owner_of_all, time_of
from authfabric.commands.trust.capability_view import (
    LINK,
    describe,
    describe_certificate,
    describe_notice,
    rows_of,
    signature_of,
    text_of,
)
from authfabric.files import read_chains, read_file, read_owners, read_revocations, write_new
from authfabric.terminal import Exit, Json, fail, passphrase, print_json, say_table
from authz import Identity
from authz.errors import InvalidSignature
from authz.spki import (
    Certificate,
    ChainRefused,
    Fault,
    Notice,
    Owners,
    Reduced,
    Revocations,
    Right,
    parse_chain,
    unparse_chain,
    verify,
)
from authz.spki.possession import NONCE_BYTES, Challenge, close, prove
from authz.spki.reduction import arrange, require
from authz.spki.text import parse_notice, unparse_capability, unparse_notice
from bus.identity import load_key

OwnersFile = Annotated[Path, typer.Option("--owners", help="The file that says which key owns what.")]


def show(
    file: Annotated[Path, typer.Argument(help="A certificate, a chain or a revocation list; - reads stdin.")],
    json: Json = False,
) -> None:
    """Show what a file claims, and whether its signatures hold. Nothing else is verified."""
    with errors():
        shown = read_file(file, _parse_chain_or_notice)
        if isinstance(shown, Notice):
            _show_notice(shown, json)
        elif json:
            print_json([describe_certificate(certificate) for certificate in shown])
        else:
            typer.echo("---\n".join(map(text_of, shown)), nl=False)


def verify_(
    chain: Annotated[Path, typer.Argument(help="The chain to verify; - reads stdin.")],
    owners: OwnersFile,
    revoked: Revoked = None,
    at: At = None,
    may: Annotated[
        tuple[Right, str] | None,
        typer.Option("--may", metavar="RIGHT NAME", help="Ask for a right over a resource as well."),
    ] = None,
    holder: Annotated[
        Path | None, typer.Option("--holder", help="Have this key file prove that it is the subject's.")
    ] = None,
    json: Json = False,
) -> None:
    """Verify a chain and show the one capability it proves.

    Exit code 0: it is sound, and grants what was asked for. 1: it does not; the first link that fails is named.
    """
    with errors(json):
        certificates = read_file(chain, parse_chain)
        known = read_owners(owners)
        reduced = verify(certificates, known, time_of(at), read_revocations(revoked or []))
        if may is not None:
            require([certificate.open() for certificate in certificates], known, *may)
        if holder is not None:
            _close_loop(reduced, load_key(holder, passphrase.known))
    if json:
        print_json({"sound": True, "capability": describe(reduced.capability)})
    else:
        typer.echo(unparse_capability(reduced.capability), nl=False)


def chain_(
    files: Annotated[list[Path], typer.Argument(help="Certificates and chains, in any order.")],
    owners: Annotated[
        Path | None, typer.Option("--owners", help="The file that says which key owns what.")
    ] = None,
    revoked: Revoked = None,
    at: At = None,
    output: Out = None,
    json: Json = False,
) -> None:
    """Put certificates into the order of a chain and show each link, and where it fails if it does.

    Without --owners the first issuer is taken for the owner of everything.
    """
    with errors():
        certificates = arrange(read_chains(files))
        known = read_owners(owners) if owners else owner_of_all(certificates)
        failure = _failure(certificates, known, time_of(at), read_revocations(revoked or []))
        if output is not None:
            write_new(output, unparse_chain(certificates))
    if json:
        links = [describe_certificate(certificate) for certificate in certificates]
        print_json({"sound": failure is None, "problem": failure and str(failure), "links": links})
    else:
        say_table(LINK, rows_of(certificates, failure))
    if failure is not None:
        fail(failure, Exit.DENIED)


def _parse_chain_or_notice(text: str, source: str) -> tuple[Certificate, ...] | Notice:
    tells_of_revocation = re.search("^revoker:", text, re.MULTILINE)
    return parse_notice(text, source) if tells_of_revocation else parse_chain(text, source)


def _show_notice(notice: Notice, json: bool) -> None:
    if json:
        print_json(describe_notice(notice))
    else:
        typer.echo(f"# signature: {signature_of(notice)}\n{unparse_notice(notice)}", nl=False)


def _close_loop(reduced: Reduced, holder: Identity) -> None:
    """Run the certificate loop with a verifier made for this once."""
    challenge = Challenge(Identity.generate().public, secrets.token_bytes(NONCE_BYTES))
    try:
        close(reduced.capability, challenge, prove(challenge, holder))
    except InvalidSignature:
        problem = f"empowers `{reduced.capability.subject}`, and the holder is `{holder.public}`"
        raise ChainRefused(len(reduced.links), Fault.NOT_THE_HOLDER, problem) from None


def _failure(
    chain: tuple[Certificate, ...], owners: Owners, at: int, revocations: Revocations
) -> ChainRefused | None:
    try:
        verify(chain, owners, at, revocations)
    except ChainRefused as error:
        return error
    return None
