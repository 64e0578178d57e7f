"""`authfabric domain`: make a domain, run its access control service, let members and other domains in."""

from __future__ import annotations

from pathlib import Path
from time import time
from typing import Annotated

import msgspec
import typer

from authfabric.commands.trust import domain_rotate, domain_servers, domain_trust
from authfabric.commands.trust.capability_view import describe_member
from authfabric.commands.trust.domain_servers import Folder, errors, refresh_nodes
from authfabric.files import FileRefused, read_storage, write_new
from authfabric.processes import DomainProcess, role_rules, serve_domain, tell
from authfabric.terminal import (
    Exit,
    HealthOptions,
    Json,
    fail,
    option_seconds,
    passphrase,
    print_json,
    printable,
    run,
    say,
    say_table,
    with_option_types,
)
from authz import Identity
from authz.errors import UNREADABLE, InvalidKey
from authz.spki import Authority, Certificate, InvalidCapability, parse_authority
from authz.spki.validity import format_time
from bus.errors import BadMessage
from bus.identity import Lifetime, load_key, load_public_key, write_credentials, write_private
from pdp.access import JOIN_REQUEST, AccessRules, DomainFolder, JoinRequest, Membership, Share, revokers
from pep.trust import read_keys

app = typer.Typer(help="Domains: who may connect, and what they may do there.", no_args_is_help=True)
app.add_typer(domain_trust.app, name="trust")
for _command in (domain_servers.init, domain_servers.certify, domain_servers.nodes, domain_rotate.rotate):
    app.command()(_command)

ROLES = {
    "pep": "network: {0}\naction: connect",
    "pdp": "network: {0}\naction: connect\nobject: *\naction: decide",
    "broker": "network: {0}\naction: connect|carry",
    "installer": "network: {0}\naction: connect|install",
    "operator": "resource: *\naction: *",
}
DEFAULT_NETWORK = "*"

Name = Annotated[str, typer.Argument(help="A name for the member that no other has.")]
Lines = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[LINE]...", help="What is granted, line by line: 'network: shop' 'action: connect'."
    ),
]
For = Annotated[str, typer.Option("--for", help="How long it lasts: 90s, 15m, 8h, 30d.")]
UrlOption = Annotated[str | None, typer.Option("--url", help="Where the domain's NATS servers are.")]


@app.command()
@with_option_types
def serve(
    *,
    folder: Folder,
    url: UrlOption = None,
    session: Annotated[
        float, typer.Option(help="Seconds after which a connection is admitted anew.")
    ] = 3600.0,
    lifetime: Annotated[
        float, typer.Option(help="Seconds that capabilities last which are asked for.")
    ] = 3600.0,
    connections: Annotated[int, typer.Option(min=1, help="Connections that one key may have.")] = 256,
    messages: Annotated[
        float, typer.Option(help="Messages a second that one connection may send.")
    ] = 100_000.0,
    roles: Annotated[
        str | None,
        typer.Option(
            metavar="KEY|FILE",
            help="The public key of the role service for whose sessions to give capabilities.",
        ),
    ] = None,
    policies: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="The folder of policies that says which roles give which; with --roles."
        ),
    ] = None,
    audit: Annotated[
        bool, typer.Option(help="Set up the stream in which services and replicas record decisions.")
    ] = True,
    roots: Annotated[
        list[str] | None,
        typer.Option(
            "--root",
            metavar="KEY|FILE",
            help="Whoever may vouch for brokers for any type, besides the types' owners. Repeatable.",
        ),
    ] = None,
    storage: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=OPTIONS",
            help="How events are kept on the way whose types name this: `fast=memory,replicas=1,age=1h,bytes=2GB`."
            " `file` and `memory` are there, and can be changed. Repeatable.",
        ),
    ] = None,
    health: HealthOptions,
    json: Annotated[bool, typer.Option("--json", help="Say in JSON when it is ready.")] = False,
) -> None:
    """Run the domain's access control service, until SIGTERM or Ctrl-C. Run several, for when one fails.

    What the domain is granted meanwhile, and whom it admits, counts within seconds.
    """
    if (roles is None) != (policies is None):
        fail("`--roles` and `--policies` go together: who is in a role, and what the role gives", Exit.USAGE)
    rules = AccessRules(session_seconds=session, connections=connections)
    with errors():
        opened = DomainFolder.open(folder)
        issuer = opened.issuer(passphrase.known)
        where, share = url or opened.file.url, Share(messages_per_second=messages)
        giving = None if roles is None or policies is None else role_rules(load_public_key(roles), policies)
        classes, vouching = read_storage(storage or []), read_keys(roots or [])
    process = DomainProcess(
        opened,
        issuer,
        where,
        rules,
        share,
        lifetime,
        giving,
        json,
        audit,
        vouching,
        classes,
        health.address(),
    )
    run(serve_domain(process))


@app.command()
def grant(
    folder: Folder,
    name: Name,
    lines: Lines = None,
    kind: Annotated[
        str | None, typer.Option("--as", help=f"What is usually granted to one of these: {', '.join(ROLES)}.")
    ] = None,
    network: Annotated[str, typer.Option(help="In which networks; with --as.")] = DEFAULT_NETWORK,
    joined: Annotated[
        str, typer.Option("--in", help="Make the credentials for this network, which the domain has joined.")
    ] = "",
    key: Annotated[
        Path | None, typer.Option("--key", help="The member's private key. Default: a new one.")
    ] = None,
    delegate: Annotated[bool, typer.Option("--delegate", help="Let the member pass it on.")] = False,
    lasts: For = "90d",
    output: Annotated[Path, typer.Option("--out", help="The file of credentials to write.")] = Path(
        "credentials.json"
    ),
    json: Json = False,
) -> None:
    """Let somebody in: enrol a key, and write the file of credentials that it connects with."""
    with errors():
        opened = DomainFolder.open(folder)
        issuer = opened.issuer(passphrase.known)
        authority = _authority(lines, kind, network)
        holder = Identity.generate() if key is None else load_key(key, passphrase.known)
        if output.exists():
            raise FileRefused(output, "already exists")
        certificate = issuer.grant(
            holder.public, authority, _lifetime(lasts), delegate=delegate or kind == "operator"
        )
        file = opened.credentials(issuer, holder, certificate, time(), joined)
        opened.grant(name, certificate)
        write_credentials(output, file)
    if json:
        print_json({"name": name, "key": str(holder.public), "credentials": str(output), "url": file.url})
    else:
        say(f"[green]granted[/] to {holder.public}; use it with")
        say(f"  AUTHFABRIC_CREDENTIALS={output}")
    with errors():
        refresh_nodes(opened, json)


@app.command()
def revoke(
    folder: Folder,
    name: Annotated[str, typer.Argument(help="The name of a member, or with --domain of a domain.")],
    domain: Annotated[
        bool, typer.Option("--domain", help="Revoke a domain that was admitted, with all its members.")
    ] = False,
    replaced: Annotated[
        bool,
        typer.Option(
            "--replaced", help="Revoke the keys that had the name before, as after `domain certify`."
        ),
    ] = False,
    url: UrlOption = None,
    json: Json = False,
) -> None:
    """Revoke a member's key for good, and everything that was ever issued to it: it is disconnected at once.

    It is struck off under all its names. The domain's own servers are told, and those of the networks it has joined.
    """
    with errors():
        opened = DomainFolder.open(folder)
        issuer = opened.issuer(passphrase.known)
        issued = opened.replaced(name) if replaced else _issued(opened, name, domain)
        if not issued:
            kind = "admitted domain" if domain else "member that was replaced" if replaced else "member"
            raise InvalidKey(f"`{name}` is no {kind}: see `authfabric domain status {folder}`")
        capabilities = [each.unverified() for each in issued]
        signed = {each.subject: revokers(opened, each.issuer) for each in capabilities}
        signers = {
            by: opened.signer(str(by), passphrase.known) for several in signed.values() for by in several
        }
        notices = {
            key: [opened.revoke(signers[by], key, time()) for by in several]
            for key, several in signed.items()
        }
        refresh_nodes(opened, json=True)  # also where nobody can be told now
    for key, several in notices.items():
        for notice in several:
            told = run(tell(opened, issuer, url or opened.file.url, notice))
        for notice in several:
            opened.strike_off(notice.issuer, key)
        if json:
            print_json({"name": name, "revoked": str(key), "told": told})
        else:
            say(f"[green]revoked[/]: `{name}` is out of {', '.join(told)}, and its key {key} stays out")
    with errors():
        refresh_nodes(opened, json)


def _issued(opened: DomainFolder, name: str, domain: bool) -> list[Certificate]:
    found = (opened.admitted_domains if domain else opened.members).get(name)
    return [] if found is None else [found]


@app.command()
def join(
    folder: Folder,
    given: Annotated[
        Path | None, typer.Argument(metavar="[MEMBERSHIP]", help="What the other domain's `admit` wrote.")
    ] = None,
    request: Annotated[
        Path | None,
        typer.Option("--request", help="Write a request to join, to be admitted by another domain."),
    ] = None,
    wants: Annotated[
        list[str] | None, typer.Option("--want", metavar="LINE", help="What to ask for, line by line.")
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Keep it in place of what the network gave before.")
    ] = False,
    json: Json = False,
) -> None:
    """Join another domain's network: first ask, signed by this domain's key; then keep what it gives."""
    if (given is None) == (request is None):
        fail("say either `--request FILE`, to ask, or the file that was given in answer", Exit.USAGE)
    with errors():
        opened = DomainFolder.open(folder)
        if request is not None:
            asked = JoinRequest(opened.file.name, "\n".join(wants or []), time())
            write_private(request, JOIN_REQUEST.sign(asked, opened.domain(passphrase.known).owner))
            told = {"request": str(request)}
        else:
            assert given is not None
            membership = _read_membership(given)
            opened.join(membership, again=again)
            told = {"joined": membership.network, "url": membership.url}
    print_json(told) if json else say(" ".join(f"{k}: {v}" for k, v in told.items()))


@app.command()
def admit(
    folder: Folder,
    request: Annotated[Path, typer.Argument(help="What the other domain's `join --request` wrote.")],
    lines: Lines = None,
    lasts: For = "365d",
    output: Annotated[Path, typer.Option("--out", help="What to give it in answer.")] = Path(
        "membership.json"
    ),
    json: Json = False,
) -> None:
    """Admit another domain to this network: it may do, and pass on, what is granted here, or else what it asked for."""
    with errors():
        opened = DomainFolder.open(folder)
        asked, key = JOIN_REQUEST.read(_read_bytes(request))
        text = "\n".join(lines or []) or asked.wants or f"network: {opened.file.name}\naction: connect|carry"
        domain = opened.domain(passphrase.known)
        capability, certificate = domain.admit(asked.name, key, parse_authority(text), _lifetime(lasts))
        membership = opened.admitted(asked, capability, certificate)
        write_new(output, msgspec.json.format(msgspec.json.encode(membership), indent=2).decode() + "\n")
    if json:
        print_json({"name": asked.name, "key": str(key), "membership": str(output)})
    else:
        say(f"[green]admitted[/] `{asked.name}` ({key}): give it {output}")
    with errors():
        refresh_nodes(opened, json)


@app.command()
def status(folder: Folder, json: Json = False) -> None:
    """Show a domain: who is in it, what its service holds, which domains it has admitted and which networks joined."""
    with errors():
        opened = DomainFolder.open(folder)
        members, networks = opened.members, opened.networks
        holdings = [chain[-1].unverified().issuer for chain in opened.holdings]
    if json:
        document = {
            "name": opened.file.name,
            "owner": opened.file.owner,
            "service": opened.file.service,
            "url": opened.file.url,
            "servers_until": format_time(int(opened.servers_until)),
            "domains": opened.domains[1:],
            "networks": list(networks),
            "holdings": len(holdings),
            "members": {name: describe_member(each) for name, each in members.items()},
        }
        print_json(document)
        return
    say(f"[bold]{opened.file.name}[/] at {opened.file.url}, owned by {opened.file.owner}")
    say(f"its servers are certified until {format_time(int(opened.servers_until))}")
    say(f"admitted: {', '.join(opened.domains[1:]) or 'nobody'}; joined: {', '.join(networks) or 'none'}")
    say_table(("member", "key", "until", "passes on"), [_row(*each) for each in members.items()])


def _authority(lines: list[str] | None, kind: str | None, network: str) -> Authority:
    if bool(lines) == bool(kind):
        raise InvalidCapability("grants", "say what is granted: in lines, or with `--as`")
    if kind is not None and kind not in ROLES:
        raise InvalidCapability("--as", f"`{kind}` must be one of {', '.join(ROLES)}")
    return parse_authority(ROLES[kind].format(network) if kind else "\n".join(lines or []))


def _lifetime(text: str) -> Lifetime:
    return Lifetime(time(), option_seconds("--for", text))


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise FileRefused(path, f"cannot be read: {error.strerror}") from None


def _read_membership(path: Path) -> Membership:
    try:
        return msgspec.json.decode(_read_bytes(path), type=Membership)
    except UNREADABLE as error:
        raise BadMessage(str(path), f"is not what `authfabric domain admit` writes: {error}") from None


def _row(name: str, certificate: Certificate) -> tuple[str, ...]:
    told = describe_member(certificate)
    passes_on = "yes" if told["delegate"] else "no"
    return printable(name), str(told["key"])[:12], str(told["until"]), passes_on
