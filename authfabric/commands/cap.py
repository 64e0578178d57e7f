"""`authfabric cap`: make keys, issue and pass on capabilities, look at them, verify them, take them back."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from authfabric import passphrase
from authfabric.capability_files import (
    FileRefused,
    read,
    read_chains,
    read_owners,
    read_revocations,
    replace,
    write_new,
)
from authfabric.capability_view import (
    describe,
    describe_certificate,
    describe_notice,
    signature_of,
    table_of,
    text_of,
)
from authfabric.durations import seconds_of
from authfabric.settings import find_url
from authfabric.terminal import Exit, Json, Url, fail, out, print_json, run
from authz import AuthFabricError, Identity
from authz.errors import InvalidKey, InvalidSignature, InvalidSyntax
from authz.spki import (
    Authority,
    Capability,
    Certificate,
    ChainRefused,
    Fault,
    InvalidCapability,
    Kind,
    Notice,
    Owners,
    Reduced,
    Resource,
    Revocations,
    Right,
    Validity,
    parse_authority,
    parse_chain,
    unparse_chain,
    verify,
)
from authz.spki.loop import NONCE_BYTES, Challenge, close, prove
from authz.spki.reduction import arrange, combine, require
from authz.spki.syntax import parse_time
from authz.spki.text import parse_notice, unparse_capability, unparse_notice
from authz.spki.validity import Recheck
from bus.access import ask_revocation
from bus.errors import NoResponders
from bus.keystore import create_key, load_key, load_public_key
from bus.link import connect
from bus.revocations import publish_notice

app = typer.Typer(
    help="Capabilities: signed certificates of who may do what, and chains of them.", no_args_is_help=True
)

Key = Annotated[Path, typer.Option("--key", help="The key file of whoever signs.")]
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
    typer.Option(
        "--recheck", min=1, help="Hold only while the signer's newest revocation list is so many seconds old."
    ),
]
Out = Annotated[Path | None, typer.Option("--out", help="Write it there instead of to standard output.")]
OwnersFile = Annotated[Path, typer.Option("--owners", help="The file that says which key owns what.")]
Revoked = Annotated[
    list[Path] | None,
    typer.Option("--revoked", help="A revocation list or event to heed. Repeat it for several."),
]
At = Annotated[str | None, typer.Option("--at", help="The time to verify for. Default: now.")]


@app.command()
def keygen(
    name: Annotated[Path, typer.Argument(help="Makes NAME.key, for you alone, and NAME.pub, for everybody.")],
    unencrypted: Annotated[
        bool, typer.Option("--unencrypted", help="Leave the key without a passphrase.")
    ] = False,
    json: Json = False,
) -> None:
    """Make a key. Its passphrase is read from $AUTHFABRIC_PASSPHRASE or typed."""
    with _errors():
        identity = Identity.generate()
        create_key(name.with_name(name.name + ".key"), identity, None if unencrypted else passphrase.chosen())
        write_new(name.with_name(name.name + ".pub"), f"{identity.public}\n")
    if json:
        print_json({"public_key": str(identity.public), "encrypted": not unencrypted})
    else:
        typer.echo(identity.public)


@app.command()
def issue(
    key: Key,
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
    with _errors():
        issuer = load_key(key, passphrase.known)
        validity = _validity(issuer, start, lasts, recheck)
        subject = load_public_key(to)
        capability = Capability(issuer.public, subject, delegate, _granted(lines, grants), validity)
        _deliver((capability.sign(issuer),), output, json)


@app.command()
def delegate(
    chain: Annotated[Path, typer.Option("--chain", help="The chain that gives you what you pass on.")],
    key: Key,
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
    with _errors():
        issuer = load_key(key, passphrase.known)
        held_by = read(chain, parse_chain)
        validity = _validity(issuer, start, lasts, recheck)
        subject = load_public_key(to)
        passed = Capability(issuer.public, subject, delegate, _granted(lines, grants), validity)
        held = verify(held_by, _owner_of_all(held_by), _time(None), read_revocations(revoked or []))
        _check_held(held, passed, blanket)
        _deliver((*held_by, passed.sign(issuer)), output, json)


@app.command()
def show(
    file: Annotated[Path, typer.Argument(help="A certificate, a chain or a revocation list; - reads stdin.")],
    json: Json = False,
) -> None:
    """Show what a file claims, and whether its signatures hold. Nothing else is verified."""
    with _errors():
        shown = read(file, _parse_chain_or_notice)
        if isinstance(shown, Notice):
            _show_notice(shown, json)
        elif json:
            print_json([describe_certificate(certificate) for certificate in shown])
        else:
            typer.echo("---\n".join(map(text_of, shown)), nl=False)


@app.command("verify")
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
    with _errors(json):
        certificates = read(chain, parse_chain)
        known = read_owners(owners)
        reduced = verify(certificates, known, _time(at), read_revocations(revoked or []))
        if may is not None:
            require([certificate.open() for certificate in certificates], known, *may)
        if holder is not None:
            _close_loop(reduced, load_key(holder, passphrase.known))
    if json:
        print_json({"sound": True, "capability": describe(reduced.capability)})
    else:
        typer.echo(unparse_capability(reduced.capability), nl=False)


@app.command("chain")
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
    with _errors():
        certificates = arrange(read_chains(files))
        known = read_owners(owners) if owners else _owner_of_all(certificates)
        failure = _failure(certificates, known, _time(at), read_revocations(revoked or []))
        if output is not None:
            write_new(output, unparse_chain(certificates))
    if json:
        links = [describe_certificate(certificate) for certificate in certificates]
        print_json({"sound": failure is None, "problem": failure and str(failure), "links": links})
    else:
        out.print(table_of(certificates, failure))
    if failure is not None:
        fail(failure, Exit.DENIED)


@app.command()
def revoke(
    key: Key,
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
    url: Url = None,
    json: Json = False,
) -> None:
    """Take a certificate back: sign the next revocation list."""
    with _errors():
        issuer = load_key(key, passphrase.known)
        taken = () if file is None else (read(file, parse_chain)[-1],)
        for certificate in taken:
            _check_revoker(issuer, certificate)
        notice = _next_list(list_, issuer, taken)
        replace(list_, unparse_notice(notice))
        if event is not None and taken:
            write_new(event, unparse_notice(Notice.event(issuer, taken[0], notice.at)))
    if publish:
        run(_publish(find_url(url), notice))
    if json:
        print_json(describe_notice(notice))
    else:
        out.print(f"list {notice.number} of {issuer.public}: {len(notice.revoked)} revoked", highlight=False)


async def _publish(url: str, notice: Notice) -> None:
    """Through the access control service where there is one: elsewhere whoever connects may write to the store."""
    async with connect(url, name="cap", connect_seconds=2.0) as bus:
        try:
            await ask_revocation(bus, notice)
        except NoResponders:
            await publish_notice(bus, notice)


@contextmanager
def _errors(json: bool = False) -> Iterator[None]:
    """End with one line and the exit code that says whose fault it is; `json` has a refusal printed as well."""
    try:
        yield
    except ChainRefused as error:
        if json:
            print_json({"sound": False, "link": error.link, "fault": error.fault, "problem": error.problem})
        fail(error, Exit.DENIED)
    except (InvalidSyntax, InvalidCapability, InvalidKey) as error:
        fail(error, Exit.USAGE)
    except AuthFabricError as error:
        fail(error)


def _granted(lines: list[str] | None, file: Path | None) -> Authority:
    if bool(lines) == bool(file):
        raise InvalidCapability("grants", "say what is granted, either in lines or in a file")
    return read(file, parse_authority) if file else parse_authority("\n".join(lines or []))


def _validity(issuer: Identity, start: str | None, lasts: str, recheck: int | None) -> Validity:
    first = _time(start)
    rechecks = (Recheck(issuer.public, recheck),) if recheck else ()
    if lasts == "ever":
        return Validity(first, None, rechecks)
    seconds = seconds_of(lasts)
    if seconds is None:
        raise InvalidCapability("--for", f"`{lasts}` must be like 90s, 15m, 8h or 30d, or be `ever`")
    return Validity(first, first + seconds, rechecks)


def _time(text: str | None) -> int:
    return int(time.time()) if text is None else parse_time(text)


def _check_held(held: Reduced, passed: Capability, blanket: bool) -> None:
    """Raise ChainRefused unless the chain gives what is about to be passed on."""
    link = len(held.links) + 1
    combine(held.capability, passed, link)
    if not blanket and not held.capability.authority.covers(passed.authority):
        problem = "would grant more than the chain does: grant less, or say --blanket"
        raise ChainRefused(link, Fault.WIDENED, problem)


def _owner_of_all(chain: tuple[Certificate, ...]) -> Owners:
    """Take a chain at its word that its first issuer owns what it grants."""
    return Owners([(Resource(Kind.ANY, "*"), chain[0].issuer)])


def _deliver(chain: tuple[Certificate, ...], output: Path | None, json: bool) -> None:
    text = unparse_chain(chain)
    if output is not None:
        write_new(output, text)
    if json:
        print_json({**describe_certificate(chain[-1]), "text": text})
    elif output is None:
        typer.echo(text, nl=False)


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
    last = read(path, parse_notice)
    if last.issuer != issuer.public or last.number is None:
        raise FileRefused(path, f"must be a revocation list of `{issuer.public}`")
    last.verify()
    return last.following(issuer, now, taken)
