"""`authfabric broker`: run event brokers, vouch for them, and issue credentials to their clients."""

from __future__ import annotations

import asyncio
import base64
import binascii
import gc
import signal
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import time
from typing import Annotated

import msgspec
import typer

from authfabric import passphrase
from authfabric.allocation import keep_freed_memory
from authfabric.capability_files import FileRefused, read, read_owners, write_new
from authfabric.durations import option_seconds
from authfabric.history_files import Database, HistoryKey, KeepFile, history_setting
from authfabric.network_key import NetworkKey, read_network_key
from authfabric.settings import find_trust, find_url, state_folder
from authfabric.terminal import Exit, Json, Url, err, fail, print_json, run
from authfabric.type_options import NamesOption, read_names
from authz import AuthFabricError, PublicKey
from authz.errors import InvalidKey
from authz.spki import InvalidCapability, encode_chain, parse_chain
from bus.credentials_store import read_credentials
from bus.health_server import serve_vitals
from bus.keystore import load_key, load_public_key
from bus.link import connect
from bus.scopes import DEFAULT_DOMAIN
from bus.subjects import link_all
from pep import NobodyTrusted
from pep.trust_store import read_keys
from pubsub_core.broker_service import BrokerService, serve_broker
from pubsub_core.credential import Credential, issue
from pubsub_core.errors import WordTooLong
from pubsub_core.links import MAX_NAME_LENGTH
from pubsub_core.metrics import BrokerMetrics, BrokerVitals
from pubsub_core.rules.functions_service import Limits
from pubsub_core.serving import Serving
from pubsub_core.trust import ALL, withdraw
from pubsub_core.trust import vouch as vouch_for

app = typer.Typer(help="Event brokers, and those who use them.", no_args_is_help=True)

Key = Annotated[Path, typer.Option("--key", help="The key file of whoever signs.")]
Out = Annotated[Path, typer.Option("--out", help="The file to write.")]
Lasts = Annotated[str, typer.Option("--for", help="How long it holds: 90s, 15m, 8h, 30d.")]
Types = Annotated[
    list[str] | None, typer.Option("--type", help="The UUID of a type. Default: all. Repeatable.")
]
NEW_OBJECTS = 10_000
"""After so many new objects a broker looks for circles of them that nobody needs any more."""


@app.command()
def serve(
    key: Annotated[Path, typer.Option("--key", help="The broker's own key file.")],
    clients: Annotated[
        list[str],
        typer.Option(
            "--clients",
            metavar="DOMAIN=KEY|FILE",
            help="A domain whose credentials count, and the key that signs them. Repeatable.",
        ),
    ],
    name: Annotated[str, typer.Option(help="Its name, which no other broker has. Default: the host's.")] = "",
    domain: Annotated[str, typer.Option(help="Its domain, whose PDPs it asks.")] = DEFAULT_DOMAIN,
    trust: Annotated[
        list[str] | None,
        typer.Option(
            "--trust",
            metavar="KEY|FILE",
            help="Whose releases of policies and tables of context count, and whose PDPs. Repeatable."
            " Default: AUTHFABRIC_TRUST, the key of the `up` that runs here, or those in its credentials.",
        ),
    ] = None,
    insecure: Annotated[
        bool,
        typer.Option("--insecure", help="Believe whichever PDP answers, and follow nobody's releases."),
    ] = False,
    roots: Annotated[
        list[str] | None,
        typer.Option(
            "--root", metavar="KEY|FILE", help="Who may vouch for brokers besides type owners. Repeatable."
        ),
    ] = None,
    vouches: Annotated[
        list[Path] | None, typer.Option("--vouch", help="A word for this broker, or another. Repeatable.")
    ] = None,
    owner_keys: Annotated[
        list[Path] | None,
        typer.Option(
            "--owner-key", help="The key file of a type owner whose heartbeats it sends. Repeatable."
        ),
    ] = None,
    owners: Annotated[
        Path | None,
        typer.Option(
            "--owners", help="A file of type owners without whose capability nobody uses their types."
        ),
    ] = None,
    names: NamesOption = None,
    share: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="The share of other brokers' events that is verified.")
    ] = 1.0,
    sealed: Annotated[
        list[str] | None,
        typer.Option(
            "--sealed",
            metavar="TYPE=FILE",
            help="A type that travels encrypted, and the capability by which its keys are asked for. Repeatable.",
        ),
    ] = None,
    neighbours: Annotated[
        list[str] | None,
        typer.Option(
            "--neighbour",
            metavar="NAME",
            help="A broker it has a line to; others are reached through it. Default: all it hears. Repeatable.",
        ),
    ] = None,
    network_key: NetworkKey = None,
    home: Annotated[
        str,
        typer.Option(
            help="The server of its own domain, with PDPs and policies, if it is not the network's."
        ),
    ] = "",
    home_credentials: Annotated[
        Path | None,
        typer.Option(help="The file of credentials for that server. Default: the same as for the network's."),
    ] = None,
    functions: Annotated[
        str, typer.Option("--functions", metavar="MODULE", help="A Python module of functions for rules.")
    ] = "",
    function_seconds: Annotated[
        float, typer.Option(min=0.001, help="How long one of them may take, in seconds.")
    ] = Limits().seconds,
    function_memory: Annotated[
        int, typer.Option(min=64, help="How much memory they may use, in MiB.")
    ] = Limits().memory >> 20,
    functions_unconfined: Annotated[
        bool,
        typer.Option(
            "--functions-unconfined",
            help="Run them without being confined by the system. They can then do whatever this broker can.",
        ),
    ] = False,
    disclosures: Annotated[
        bool, typer.Option(help="Put what is sent under rules into the audit stream, if there is one.")
    ] = True,
    known: Annotated[
        Path | None,
        typer.Option(
            help="The file that remembers which other brokers there are; who manages keys is remembered beside it."
            " Default: one below the state folder."
        ),
    ] = None,
    history: Database = None,
    history_key: HistoryKey = None,
    keep: KeepFile = None,
    health_port: Annotated[
        int, typer.Option(help="Port for /healthz, /readyz and /metrics on this machine; 0 takes a free one.")
    ] = 0,
    url: Url = None,
    json: Json = False,
) -> None:
    """Carry events between clients and other brokers, as the PDPs permit, until SIGTERM or Ctrl-C."""
    name = name or socket.gethostname()
    if len(name) > MAX_NAME_LENGTH or len(domain) > MAX_NAME_LENGTH:
        fail(f"--name and --domain must have at most {MAX_NAME_LENGTH} characters", Exit.USAGE)
    with _errors():
        identity, where = load_key(key, passphrase.known), find_url(url)
        known = known or state_folder() / "brokers" / f"{identity.public.raw.hex()[:16]}.known"
        serving = Serving(
            where,
            name,
            domain,
            identity,
            _clients(clients),
            frozenset() if insecure else find_trust(trust, home or where),
            read_keys(roots or []),
            tuple(read_signed(path) for path in vouches or []),
            tuple(load_key(path, passphrase.known) for path in owner_keys or []),
            read_owners(owners) if owners is not None else None,
            share,
            sealed=dict(_sealed(text) for text in sealed or []),
            network=read_network_key(network_key),
            history=history_setting(history, history_key, keep, name),
            neighbours=tuple(neighbours or ()),
            known=known,
            managers=known.with_suffix(".managers"),
            home=home,
            home_access=read_credentials(home_credentials).credentials if home_credentials else None,
            functions=functions,
            disclosures=disclosures,
            unverified=insecure,
            limits=Limits(function_seconds, function_memory << 20, confined=not functions_unconfined),
            names=read_names(names),
        )
    run(_serve(serving, health_port, json))


@app.command()
def vouch(
    broker: Annotated[str, typer.Argument(help="The broker's public key, or the file that holds it.")],
    key: Key,
    output: Out,
    types: Types = None,
    lasts: Lasts = "90d",
    heartbeats: Annotated[
        bool,
        typer.Option(
            "--heartbeats",
            help="Promise that some broker sends your heartbeats (`broker serve --owner-key`): whoever knows"
            " of the promise delivers nothing of your types while it hears none.",
        ),
    ] = False,
) -> None:
    """Say that a broker is to be trusted with events of your types."""
    with _errors():
        now, signer, public = time(), load_key(key, passphrase.known), load_public_key(broker)
        until = now + option_seconds("--for", lasts)
        write_signed(output, vouch_for(public, types or [ALL], until, signer, now, heartbeats=heartbeats))


@app.command()
def distrust(
    broker: Annotated[str, typer.Argument(help="The broker's public key, or the file that holds it.")],
    key: Key,
    types: Types = None,
    output: Annotated[
        Path | None, typer.Option("--out", help="A file to write it to as well, for `broker serve --vouch`.")
    ] = None,
    domain: Annotated[str, typer.Option(help="The domain in whose name brokers are told.")] = DEFAULT_DOMAIN,
    url: Url = None,
) -> None:
    """Take back what you said for a broker: all brokers that run leave it out at once, and tell those that start."""
    with _errors():
        word = withdraw(load_public_key(broker), types or [ALL], time(), load_key(key, passphrase.known))
        if output is not None:
            write_signed(output, word)
    run(_tell(find_url(url), domain, word))


@app.command()
def credential(
    client: Annotated[str, typer.Argument(help="The client's public key, or the file that holds it.")],
    name: Annotated[str, typer.Argument(help="The name by which PDPs know it.")],
    key: Key,
    output: Out,
    attributes: Annotated[
        list[str] | None,
        typer.Option("--attribute", "-a", metavar="NAME=VALUE", help="JSON, or text. Repeatable."),
    ] = None,
    roles: Annotated[
        list[str] | None,
        typer.Option("--role", help="A role, as rules ask for it by `credentials(user, ROLE)`. Repeatable."),
    ] = None,
    domain: Annotated[str, typer.Option(help="The domain that gives it.")] = DEFAULT_DOMAIN,
    lasts: Lasts = "90d",
) -> None:
    """Give a client its name and attributes, in the word of your domain."""
    with _errors():
        pairs = dict(_pair(each) for each in attributes or [])
        if roles:
            pairs["roles"] = roles
        public = str(load_public_key(client))
        given = Credential(public, name, domain, time() + option_seconds("--for", lasts), pairs)
        write_signed(output, issue(given, load_key(key, passphrase.known)))


def read_signed(path: Path) -> bytes:
    """What `write_signed` wrote. Raises FileRefused."""

    def parse(text: str, source: str) -> bytes:
        try:
            return base64.b64decode("".join(text.split()), validate=True)
        except binascii.Error:
            raise FileRefused(path, "must be base64 text, as `authfabric broker` writes it") from None

    return read(path, parse)


def write_signed(path: Path, data: bytes) -> None:
    write_new(path, base64.encodebytes(data).decode())


def _clients(texts: Sequence[str]) -> dict[str, frozenset[PublicKey]]:
    """The keys that sign for each domain. Raises InvalidKey."""
    keys: dict[str, frozenset[PublicKey]] = {}
    for text in texts:
        domain, equals, key = text.partition("=")
        if not (domain and equals and key):
            fail(
                f"`--clients {text}` must be DOMAIN=KEY: the domain, and the key that signs its credentials",
                Exit.USAGE,
            )
        keys[domain] = keys.get(domain, frozenset()) | read_keys([key])
    return keys


def _sealed(text: str) -> tuple[str, bytes]:
    """A type's name, and the capability in a file."""
    name, equals, file = text.partition("=")
    if not equals:
        raise FileRefused(
            Path(text), "must be given as TYPE=FILE, with the capability for the type in the file"
        )
    return name, encode_chain(read(Path(file), parse_chain))


async def _tell(url: str, domain: str, word: bytes) -> None:
    async with connect(url, name="distrust") as bus:
        bus.send(link_all(domain, "vouch"), word)
        await bus.flush()


async def _serve(serving: Serving, health_port: int, json: bool) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    keep_freed_memory()
    async with serve_broker(serving) as service:
        # What is there now stays, and of what comes most is gone before anybody need look for circles in it.
        gc.freeze()
        gc.set_threshold(NEW_OBJECTS)
        with serve_vitals(BrokerVitals(service), [BrokerMetrics(service)], health_port) as port:
            _say_ready(serving, service, f"http://127.0.0.1:{port}", json)
            await stop.wait()
    counts = service.broker.counts
    err.print(
        f"ended: {counts.published} events published, {counts.forwarded} passed on, {counts.delivered} delivered",
        highlight=False,
    )


def _say_ready(serving: Serving, service: BrokerService, health: str, json: bool) -> None:
    types = sorted({each.definition.name for each in service.catalogue})
    if json:
        ready = {"ready": True, "url": serving.url, "broker": serving.name, "types": types}
        print_json({**ready, "health": health})
    else:
        shown = f"{len(types)} type{'s' * (len(types) > 1)}" if types else "no types yet"
        where = f"on {serving.url}; {shown}; health on {health}"
        err.print(f"[green]ready[/]: broker {serving.name} {where}", highlight=False, soft_wrap=True)


def _pair(text: str) -> tuple[str, object]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        fail(f"`{text}` must be NAME=VALUE", Exit.USAGE)
    try:
        return name, msgspec.json.decode(value)
    except msgspec.DecodeError:
        return name, value


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except (InvalidCapability, InvalidKey, NobodyTrusted, WordTooLong) as error:
        fail(error, Exit.USAGE)
    except AuthFabricError as error:
        fail(error)
