"""`authfabric roles`: keep role sessions; begin one, activate roles in it, appoint, revoke, tell facts."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import time
from typing import Annotated, TypeVar

import msgspec
import typer

from authfabric.commands.begin.ask import read_attributes
from authfabric.commands.decisions.pdp import cache_file
from authfabric.files import (
    CONNECT_SECONDS,
    Trust,
    appointment_text,
    find_url,
    load_or_make,
    read_appointment,
    roles_key_file,
    trusted_keys,
    write_new,
)
from authfabric.processes import RoleProcess, serve_roles
from authfabric.terminal import (
    Exit,
    HealthOptions,
    Json,
    Url,
    err,
    fail,
    option_seconds,
    out,
    passphrase,
    print_json,
    printable,
    run,
    with_option_types,
)
from authz import AuthFabricError, Identity
from authz.predicate import Scalar
from authz.spki import decode_chain, unparse_chain
from authz.spki.text import unparse_authority
from bus.errors import NoResponders
from bus.identity import load_key
from bus.nats import ask_capability, connect
from bus.services import RoleClient, RoleRefused
from bus.wire import DEFAULT_DOMAIN, Set
from pdp.bundle import BundleCache
from pdp.oasis import Instance
from pdp.replica import Following
from pdp.sessions import Appointment, RoleServing

app = typer.Typer(help="Role sessions: keep them, and activate roles in them by proof.", no_args_is_help=True)

Result = TypeVar("Result")

Session = Annotated[
    str,
    typer.Option("--session", envvar="AUTHFABRIC_SESSION", help="The session, as `roles begin` named it."),
]
MaybeSession = Annotated[str, typer.Option("--session", help="The session in which to do it, if in one.")]
Lasts = Annotated[
    str | None, typer.Option("--for", metavar="TIME", help="How long, such as 90s, 15m, 8h or 30d.")
]
Certificates = Annotated[
    list[Path] | None,
    typer.Option("--appointment", "-a", metavar="FILE", help="A certificate to show. Repeat it for several."),
]


@dataclass(frozen=True, slots=True)
class Client:
    """Who speaks to which role service."""

    key: Annotated[
        Path,
        typer.Option("--key", envvar="AUTHFABRIC_KEY", help="Your key file; see `authfabric cap keygen`."),
    ]
    domain: Annotated[str, typer.Option(help="The domain whose role service is meant.")] = DEFAULT_DOMAIN
    url: Url = None

    @property
    def identity(self) -> Identity:
        try:
            return load_key(self.key, passphrase.known)
        except AuthFabricError as error:
            fail(error, Exit.USAGE)

    def speak(self, work: Callable[[RoleClient], Awaitable[Result]]) -> Result:
        """What comes of speaking to the role service; what it refuses is an answer, and exits with 1."""
        identity = self.identity

        async def speak() -> Result | RoleRefused:
            try:
                where = find_url(self.url)
                async with connect(where, name="roles", connect_seconds=CONNECT_SECONDS) as bus:
                    return await work(RoleClient(bus, identity, self.domain))
            except RoleRefused as error:
                return error
            except NoResponders:
                fail(f"nobody keeps the role sessions of `{self.domain}`: start `authfabric roles serve`")

        result = run(speak())
        if isinstance(result, RoleRefused):
            fail(result, Exit.DENIED)
        return result


@app.command()
@with_option_types
def serve(
    *,
    policies: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Go by this folder of policies, always. Default: follow the domain's releases.",
        ),
    ] = None,
    trust: Trust = None,
    key: Annotated[
        Path | None,
        typer.Option(
            help="The key that all role services of the domain share. Default: your own, made if there is none."
        ),
    ] = None,
    domain: Annotated[str, typer.Option(help="The domain whose role sessions are kept.")] = DEFAULT_DOMAIN,
    lease: Annotated[
        float, typer.Option(min=0.2, help="Seconds within which a role that ends counts nowhere any more.")
    ] = 5.0,
    longest: Annotated[
        str, typer.Option("--longest", metavar="TIME", help="How long a session may last at most.")
    ] = "12h",
    url: Url = None,
    name: Annotated[
        str, typer.Option(help="A name for this process that no other has. Default: from host and process.")
    ] = "",
    health: HealthOptions,
    json: Annotated[bool, typer.Option("--json", help="Say in JSON when it is ready.")] = False,
) -> None:
    """Keep the role sessions of a domain until SIGTERM or Ctrl-C. Several with one key share what they keep."""
    where = find_url(url)
    member = name or f"roles-{socket.gethostname()}-{os.getpid()}"
    seconds = option_seconds("--longest", longest)
    try:
        identity = load_or_make(key, roles_key_file())
        followed = policies or Following(
            domain,
            trusted_keys(trust),
            member,
            BundleCache(cache_file(where, f"{domain}-roles")),
            kind="roles",
        )
    except AuthFabricError as error:
        fail(error, Exit.USAGE)
    serving = RoleServing(identity, domain, lease, seconds)
    run(serve_roles(RoleProcess(where, member, followed, serving, json, health.address())))


@app.command("key")
def key_() -> None:
    """Print the public half of the key with which you serve roles; it is made at first use."""
    try:
        identity = load_or_make(None, roles_key_file())
    except AuthFabricError as error:
        fail(error)
    out.print(str(identity.public), highlight=False)


@app.command()
@with_option_types
def begin(
    *,
    client: Client,
    principal: Annotated[
        str, typer.Option("--as", help="Your name, as the policies know it. Default: the key itself.")
    ] = "",
    rules: Annotated[str, typer.Option(help="The domain whose role rules count, if there are several.")] = "",
    lasts: Lasts = None,
    json: Json = False,
) -> None:
    """Begin a session, and print its id."""
    seconds = None if lasts is None else option_seconds("--for", lasts)
    session = client.speak(lambda to: to.begin(principal, rules, seconds))
    _show({"session": session.id}, [session.id], json)


@app.command()
@with_option_types
def activate(
    *,
    roles: Annotated[
        list[str], typer.Argument(metavar="ROLE", help="Such as doctor, or 'treating(ann, p7)'; in order.")
    ],
    client: Client,
    session: Session,
    appointments: Certificates = None,
    json: Json = False,
) -> None:
    """Activate roles in a session, and print them in full."""
    shown = [_encoded(each) for each in _read(appointments or [])]

    async def work(to: RoleClient) -> list[str]:
        return [await to.session(session).activate(each, *shown) for each in roles]

    active = client.speak(work)
    _show({"session": session, "activated": active}, active, json)


@app.command()
@with_option_types
def deactivate(
    *,
    role: Annotated[str, typer.Argument(help="Such as doctor.")],
    client: Client,
    session: Session,
    json: Json = False,
) -> None:
    """Give a role up, and print what ends with it."""
    _show_ended(client.speak(lambda to: to.session(session).deactivate(role)), json)


@app.command("list")
@with_option_types
def list_(*, client: Client, session: Session, json: Json = False) -> None:
    """Print the roles that are active in a session."""
    found = client.speak(lambda to: to.session(session).look())
    _show({"session": session, "roles": found.roles, "seconds": found.seconds}, found.roles, json)


@app.command()
@with_option_types
def capability(
    *,
    client: Client,
    session: Session,
    output: Annotated[Path, typer.Option("--out", "-o", help="The file to write the capability to.")],
    json: Json = False,
) -> None:
    """Have the domain issue the capability that the roles of a session give; brokers honour it while they are held.

    The access control service gives it (`domain serve --roles KEY --policies DIR`), by the rules that end in
    `capability(...)`. It is revoked when the session, or the role, ends.
    """
    identity, where = client.identity, find_url(client.url)

    async def work() -> bytes:
        async with connect(where, name="roles", connect_seconds=CONNECT_SECONDS) as bus:
            return await ask_capability(bus, time(), session, identity)

    try:
        chain = decode_chain(run(work()))
        write_new(output, unparse_chain(chain))
    except AuthFabricError as error:
        fail(error)
    lines = unparse_authority(chain[-1].unverified().authority).splitlines()
    _show({"file": str(output), "session": session, "granted": lines}, [*lines, f"written to {output}"], json)


@app.command()
@with_option_types
def end(*, client: Client, session: Session, json: Json = False) -> None:
    """End a session, and print what ends with it."""
    _show_ended(client.speak(lambda to: to.session(session).end()), json)


@app.command()
@with_option_types
def appoint(
    *,
    content: Annotated[str, typer.Argument(help="Such as 'employed(ann, doctor)'.")],
    holder: Annotated[str, typer.Option("--to", help="Who gets it; * for whoever shows it.")],
    output: Annotated[Path, typer.Option("--out", "-o", help="The file to write the certificate to.")],
    client: Client,
    session: MaybeSession = "",
    lasts: Lasts = None,
    bound: Annotated[bool, typer.Option("--bound", help="Let it end with the session.")] = False,
    json: Json = False,
) -> None:
    """Give an appointment: in a session, signed by the domain; or without one, signed by your own key."""
    seconds = None if lasts is None else option_seconds("--for", lasts)
    if session:
        work = lambda to: to.session(session).appoint(content, holder, seconds, bound)  # noqa: E731
        appointment = msgspec.msgpack.decode(client.speak(work), type=Appointment)
    elif bound:
        fail("`--bound` needs the `--session` with which it ends", Exit.USAGE)
    else:
        appointment = _own_appointment(content, holder, seconds, client.identity)
    try:
        write_new(output, appointment_text(appointment))
    except AuthFabricError as error:
        fail(error)
    said = f"{appointment.content} for {appointment.holder}: {output}"
    _show({"file": str(output), "serial": appointment.serial, "issuer": appointment.issuer}, [said], json)


@app.command()
@with_option_types
def revoke(
    *,
    appointment: Annotated[Path, typer.Argument(metavar="FILE", help="The certificate.")],
    client: Client,
    session: MaybeSession = "",
    json: Json = False,
) -> None:
    """Revoke an appointment, and print what ends with it: in a session, or as whoever has issued it."""
    (data,) = (_encoded(each) for each in _read([appointment]))

    async def work(to: RoleClient) -> Sequence[str]:
        return await (to.session(session).revoke(data) if session else to.revoke(data))

    _show_ended(client.speak(work), json)


@app.command()
@with_option_types
def tell(
    *,
    facts: Annotated[
        list[str],
        typer.Argument(metavar="FACT", help="Such as 'treats(ann, p7)', or hour=9 for the context."),
    ],
    client: Client,
    no_longer: Annotated[bool, typer.Option("--not", help="Say that they are true no longer.")] = False,
    lasts: Lasts = None,
    json: Json = False,
) -> None:
    """Say that facts are true, or no longer, and print what ends by it. The rules must trust your key for them."""
    seconds = None if lasts is None else option_seconds("--for", lasts)
    told = [_told(each) for each in facts]

    async def work(to: RoleClient) -> list[str]:
        ended: list[str] = []
        for each in told:
            if isinstance(each, Set):
                ended += await to.set(each.name, None if no_longer else each.value, seconds)
            elif no_longer:
                ended += await to.retract(each)
            else:
                await to.tell(each, seconds)
        return ended

    _show_ended(client.speak(work), json)


def _own_appointment(content: str, holder: str, seconds: float | None, identity: Identity) -> Appointment:
    try:
        said = Instance.parse(content)
    except AuthFabricError as error:
        fail(error, Exit.USAGE)
    now = time()
    expires = None if seconds is None else now + seconds
    name = str(identity.public)
    return Appointment(
        name, secrets.token_hex(8), said.name, said.params, holder, now, expires, name, ""
    ).signed(identity)


def _read(paths: Sequence[Path]) -> list[Appointment]:
    try:
        return [read_appointment(each) for each in paths]
    except AuthFabricError as error:
        fail(error, Exit.USAGE)


def _encoded(appointment: Appointment) -> bytes:
    return msgspec.msgpack.encode(appointment)


def _told(text: str) -> str | Set:
    """A fact as it is, or an attribute of the context with its value."""
    if "=" not in text.partition("(")[0]:
        return text
    try:
        ((name, value),) = read_attributes([text]).items()
        return Set(name, msgspec.convert(value, Scalar))
    except (AuthFabricError, msgspec.ValidationError):
        fail(f"`{text}` must be NAME=VALUE, with a word, a number, true or false", Exit.USAGE)


def _show(document: dict[str, object], lines: Sequence[str], json: bool) -> None:
    if json:
        print_json(document)
    for each in () if json else lines:
        out.print(printable(each), highlight=False, soft_wrap=True)


def _show_ended(ended: Sequence[str], json: bool) -> None:
    if json:
        print_json({"ended": list(ended)})
    for each in () if json else ended:
        err.print(f"ended: {printable(each)}", highlight=False, soft_wrap=True)
