"""`authfabric broker`: run event brokers, vouch for them, and issue credentials to their clients."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import time
from typing import Annotated

import msgspec
import typer

from authfabric.commands.brokers.broker_certificates import read_certificates
from authfabric.commands.brokers.broker_options import (
    BrokerOptions,
    FunctionOptions,
    HistoryOptions,
    HomeOptions,
    SealingOptions,
    TrustOptions,
)
from authfabric.files import (
    find_trust,
    find_url,
    own_state_folder,
    read_names,
    read_network_key,
    read_owners,
    write_encoded,
)
from authfabric.processes import ConnectionMetrics, collect_garbage_rarely, keep_freed_memory
from authfabric.terminal import (
    Exit,
    HealthAddress,
    Json,
    ListenOptions,
    OutFile,
    SignerKey,
    Url,
    err,
    fail,
    option_seconds,
    passphrase,
    print_json,
    run,
    with_option_types,
)
from authz import AuthFabricError
from authz.errors import InvalidKey
from authz.spki import InvalidCapability
from bus.identity import load_key, load_public_key, read_credentials
from bus.nats import connect
from bus.runtime import serve_vitals
from bus.stores import put_record
from bus.wire import DEFAULT_DOMAIN, without_secrets
from pep import NobodyTrusted
from pep.trust import read_keys
from pubsub_core.carriage import MAX_NAME_LENGTH, word_record
from pubsub_core.errors import WordTooLong
from pubsub_core.server import BrokerMetrics, BrokerService, BrokerVitals, Serving, serve_broker
from pubsub_core.trust import ALL, Credential, issue, withdraw
from pubsub_core.trust import vouch as vouch_for

FULL_LOOKS = 100
"""Looks for garbage among few objects after which a broker looks at all: 100 ms of work with 10,000 subscriptions."""
KEYS_SECONDS = 10.0
"""How long a broker waits for the keys of sealed types before it says that it is ready without."""

app = typer.Typer(help="Event brokers, and those who use them.", no_args_is_help=True)

Lasts = Annotated[str, typer.Option("--for", help="How long it holds: 90s, 15m, 8h, 30d.")]
Types = Annotated[
    list[str] | None, typer.Option("--type", help="The UUID of a type. Default: all. Repeatable.")
]


@app.command()
@with_option_types
def serve(
    *,
    broker: BrokerOptions,
    trusted: TrustOptions,
    sealing: SealingOptions,
    homes: HomeOptions,
    calls: FunctionOptions,
    disclosures: Annotated[
        bool, typer.Option(help="Put what is sent under rules into the audit stream, if there is one.")
    ] = True,
    kept: HistoryOptions,
    health: ListenOptions,
    url: Url = None,
    json: Json = False,
) -> None:
    """Carry events between clients and other brokers, as the PDPs permit, until SIGTERM or Ctrl-C."""
    name = broker.name or socket.gethostname()
    if max(map(len, (name, broker.domain, broker.group))) > MAX_NAME_LENGTH:
        fail(f"--name, --domain and --group must have at most {MAX_NAME_LENGTH} characters", Exit.USAGE)
    with _errors():
        identity, where = load_key(broker.key, passphrase.known), find_url(url)
        own = own_state_folder() / "brokers" / f"{identity.public.raw.hex()[:16]}.known"
        known, access = trusted.known or own, homes.home_credentials
        reread = partial(
            read_certificates,
            identity.public,
            broker.clients,
            trusted.vouches or [],
            sealing.sealed or [],
            sealing.blanket,
        )
        given = reread()
        serving = Serving(
            where,
            name,
            broker.domain,
            identity,
            given.clients,
            frozenset() if trusted.insecure else find_trust(trusted.trust, homes.home or where),
            read_keys(trusted.roots or []),
            given.vouches,
            tuple(load_key(path, passphrase.known) for path in trusted.owner_keys or []),
            read_owners(trusted.owners) if trusted.owners is not None else None,
            trusted.share,
            sealed=given.sealed,
            network=read_network_key(sealing.network_key),
            history=kept.setting(name),
            known=known,
            managers=known.with_suffix(".managers"),
            home=homes.home,
            home_access=read_credentials(access).credentials if access else None,
            functions=calls.functions,
            disclosures=disclosures,
            unverified=trusted.insecure,
            limits=calls.limits(),
            names=read_names(trusted.names),
            group=broker.group,
            reread=reread,
        )
    run(_serve(serving, health.address(), json))


@app.command()
def vouch(
    broker: Annotated[str, typer.Argument(help="The broker's public key, or the file that holds it.")],
    key: SignerKey,
    output: OutFile,
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
        write_encoded(output, vouch_for(public, types or [ALL], until, signer, now, heartbeats=heartbeats))


@app.command()
def distrust(
    broker: Annotated[str, typer.Argument(help="The broker's public key, or the file that holds it.")],
    key: SignerKey,
    types: Types = None,
    output: Annotated[
        Path | None, typer.Option("--out", help="A file to write it to as well, for `broker serve --vouch`.")
    ] = None,
    domain: Annotated[str, typer.Option(help="The domain in whose name brokers are told.")] = DEFAULT_DOMAIN,
    url: Url = None,
) -> None:
    """Take back what you said for a broker: all brokers that run leave it out at once, and those that start later."""
    with _errors():
        word = withdraw(load_public_key(broker), types or [ALL], time(), load_key(key, passphrase.known))
        if output is not None:
            write_encoded(output, word)
    run(_tell(find_url(url), domain, word))


@app.command()
def credential(
    client: Annotated[str, typer.Argument(help="The client's public key, or the file that holds it.")],
    name: Annotated[str, typer.Argument(help="The name by which PDPs know it.")],
    key: SignerKey,
    output: OutFile,
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
        write_encoded(output, issue(given, load_key(key, passphrase.known)))


async def _tell(url: str, domain: str, word: bytes) -> None:
    async with connect(url, name="distrust") as bus:
        await put_record(bus, domain, *word_record(word))


async def _serve(serving: Serving, health: HealthAddress, json: bool) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    keep_freed_memory()
    async with serve_broker(serving) as service:
        collect_garbage_rarely(FULL_LOOKS)
        metrics = BrokerMetrics(service), ConnectionMetrics(service.probes.connections)
        with serve_vitals(BrokerVitals(service), metrics, health.port, health.host, health.tls) as port:
            await _wait_for_keys(service, stop)  # health and metrics can be read meanwhile
            if not stop.is_set():
                _say_ready(serving, service, health.at(port), json)
            await stop.wait()
    counts = service.broker.counts
    err.print(
        f"ended: {counts.published} events published, {counts.forwarded} passed on, {counts.delivered} delivered",
        highlight=False,
    )


async def _wait_for_keys(service: BrokerService, stop: asyncio.Event) -> None:
    """Return when the keys of sealed types are here, after some seconds, or when it is told to end."""
    waits = [
        asyncio.create_task(each) for each in (service.sealing.until_complete(KEYS_SECONDS), stop.wait())
    ]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for each in waits:
        each.cancel()


def _say_ready(serving: Serving, service: BrokerService, health: str, json: bool) -> None:
    types, url = sorted({each.definition.name for each in service.catalogue}), without_secrets(serving.url)
    if json:
        ready = {"ready": True, "url": url, "broker": serving.name, "types": types}
        print_json({**ready, "health": health})
    else:
        shown = f"{len(types)} type{'s' * (len(types) > 1)}" if types else "no types yet"
        where = f"on {url}; {shown}; health on {health}"
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
