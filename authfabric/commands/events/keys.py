"""`authfabric keys`: appoint and run managers of key groups, and see how their groups stand."""

from __future__ import annotations

import asyncio
import base64
import binascii
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from authfabric.commands.events import network_secret
from authfabric.files import (
    FileRefused,
    NamesOption,
    NetworkKey,
    find_url,
    own_state_folder,
    read_file,
    read_names,
    read_network_key,
    read_type,
    write_new,
)
from authfabric.terminal import (
    Exit,
    HealthOptions,
    Json,
    Url,
    err,
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
from authz import AuthFabricError, Identity, PublicKey
from authz.errors import InvalidKey, InvalidSignature
from authz.spki import InvalidCapability
from authz.spki.text import parse_notice
from authz.spki.validity import format_time
from bus.identity import load_key, load_public_key
from bus.nats import Connection, connect
from pubsub_core.errors import TypeRefused
from pubsub_core.key_groups import (
    Appointment,
    GroupStatus,
    KeyDistribution,
    KeyedType,
    KeyManager,
    KeyStatus,
    Rules,
    StateMarks,
    appointments,
)
from pubsub_core.keys import InvalidPlan, ManagerUntrusted, Plan, PlanReplaced
from pubsub_core.stores import TypeStore
from pubsub_core.types import Catalogue, Names, type_id

app = typer.Typer(
    help="Keys of encrypted events: who manages them, and who holds them.", no_args_is_help=True
)

for _command in (network_secret.network, network_secret.relock):
    app.command()(_command)

Type = Annotated[str, typer.Argument(help="The name of the event type, as it was published.")]
Key = Annotated[Path, typer.Option("--key", help="The manager's key file.")]
Whole = Annotated[bool, typer.Option("--whole", help="One key for whole events, not one for each attribute.")]
Together = Annotated[
    list[str] | None,
    typer.Option(
        "--together", metavar="A,B", help="Attributes that share a key. Repeat it for several groups."
    ),
]
Clear = Annotated[
    list[str] | None, typer.Option("--clear", metavar="A", help="An attribute that everyone may read.")
]


@app.command()
def appoint(
    definition: Annotated[Path, typer.Argument(help="The signed definition of the type.")],
    key: Annotated[Path, typer.Option("--key", help="The key file of the type's owner.")],
    to: Annotated[str, typer.Option("--to", help="The manager's public key, or the file that holds it.")],
    output: Annotated[Path, typer.Option("--out", help="The file to write.")],
    lasts: Annotated[str, typer.Option("--for", help="How long it lasts: 90s, 15m, 8h, 30d.")] = "90d",
) -> None:
    """Have someone manage the keys of a type you own."""
    with _errors():
        type_, owner = read_type(definition).definition, load_key(key, passphrase.known)
        if str(owner.public) != type_.owner:
            raise TypeRefused(type_.name, f"only its owner `{type_.owner}` can appoint a manager of its keys")
        now, manager = time.time(), str(load_public_key(to))
        signed = appointments.sign(
            Appointment(type_.id, manager, now + option_seconds("--for", lasts), now), owner
        )
        write_new(output, base64.b64encode(signed).decode() + "\n")


@app.command()
@with_option_types
def serve(
    *,
    type_: Type,
    key: Key,
    appointment: Annotated[
        Path | None, typer.Option("--appointment", help="What `keys appoint` wrote, unless you own the type.")
    ] = None,
    whole: Whole = False,
    together: Together = None,
    clear: Clear = None,
    pad: Annotated[
        str, typer.Option("--pad", metavar="SIZES", help="Size classes to pad to, such as 32,128,512.")
    ] = "",
    pace: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            help="Brokers pass events on in boxes, one every so often, empty if there is nothing to say.",
        ),
    ] = 0.0,
    period: Annotated[str, typer.Option(help="No key is used for longer.")] = "1d",
    delay: Annotated[str, typer.Option(help="How long old keys are kept.")] = "10m",
    revoked: Annotated[
        list[Path] | None, typer.Option("--revoked", help="A revocation list to heed. Repeat it for several.")
    ] = None,
    back: Annotated[
        bool, typer.Option("--back", help="Return to options that others have replaced since.")
    ] = False,
    names: NamesOption = None,
    network_key: NetworkKey = None,
    health: HealthOptions,
    url: Url = None,
    json: Json = False,
) -> None:
    """Manage the keys of a type until SIGTERM or Ctrl-C. Start as many replicas with one key file as you like."""
    with _errors():
        identity = load_key(key, passphrase.known)
        rules = Rules(float(option_seconds("--period", period)), float(option_seconds("--delay", delay)))
        word = read_file(appointment, _parse_appointment) if appointment is not None else b""
        notices = [read_file(path, parse_notice) for path in revoked or []]
        sizes, secret = _sizes(pad), read_network_key(network_key)
        named, where = read_names(names), health.address()
        owner = _appointer(word) if word else identity.public

        from authfabric.processes import ManagerMetrics, process_vitals  # which only this command needs

        async def work() -> None:
            async with process_vitals(where) as vitals, connect(find_url(url), name="keys") as bus:
                keyed = await _find(bus, type_, secret, named, owner)
                with _errors():
                    plan = _plan(keyed, whole, together or [], clear or [], sizes, pace)
                    _check_manager(keyed, identity, word)
                office = KeyDistribution(identity, keyed, plan, keyed.verifier(), rules, word)
                with _errors():
                    marks = StateMarks(_marks_file(identity, keyed), identity)
                manager = KeyManager(bus, office, marks, back=back)
                for notice in notices:
                    manager.accept(notice)
                with _errors():
                    async with manager.serving():
                        await bus.flush()
                        vitals.begin([bus], ManagerMetrics(manager), able=lambda: not manager.troubled)
                        _say_ready(keyed, identity, office.plan, vitals.address, json)
                        await _until_stopped()

        run(work())


@app.command()
def status(
    type_: Type,
    key: Key,
    names: NamesOption = None,
    network_key: NetworkKey = None,
    url: Url = None,
    json: Json = False,
) -> None:
    """Show the key groups of a type: their members, epochs and next refresh. It takes the manager's key file."""

    async def work() -> KeyStatus:
        async with connect(find_url(url), name="keys") as bus:
            keyed = await _find(bus, type_, secret, read_names(names))
            office = KeyDistribution(identity, keyed, Plan(()), keyed.verifier())
            found = await KeyManager(bus, office).status()
            with _errors():
                if not found.groups:
                    raise ManagerUntrusted(
                        type_, f"`{identity.public}` manages no keys of it: give the key file of `keys serve`"
                    )
            return found

    with _errors():
        identity, secret = load_key(key, passphrase.known), read_network_key(network_key)
        found = run(work())
    if json:
        print_json(found)
    else:
        _show(found)


def _marks_file(identity: Identity, keyed: KeyedType) -> Path:
    return own_state_folder() / "managers" / f"{identity.public.raw.hex()[:16]}-{keyed.id}.marks"


async def _find(
    bus: Connection,
    name: str,
    network: bytes,
    names: Sequence[tuple[str, PublicKey]],
    owner: PublicKey | None = None,
) -> KeyedType:
    """The type that a name means; if nobody says whose it is, that of the owner given comes before all others."""
    catalogue = Catalogue(Names(names) if names else None)
    await TypeStore(bus, catalogue, network).refresh()
    if owner is not None and not names and catalogue.knows(id_ := type_id(name, str(owner))):
        return KeyedType.of_type(catalogue, catalogue.newest(id_))
    return KeyedType.of(catalogue, name)


def _appointer(word: bytes) -> PublicKey | None:
    """Whoever signed an appointment, if anybody did: what that is worth is seen later."""
    try:
        return appointments.read(word).signer
    except InvalidSignature:
        return None


def _check_manager(keyed: KeyedType, identity: Identity, word: bytes) -> None:
    """Raises ManagerUntrusted if no broker would take keys from this manager."""
    if not word:
        if identity.public != keyed.owner:
            raise ManagerUntrusted(
                keyed.name, f"its owner is `{keyed.owner}`: give what that has signed by --appointment"
            )
        return
    try:
        appointed = appointments.open(word, {keyed.owner}).value
    except InvalidSignature:
        raise ManagerUntrusted(keyed.name, f"the appointment must be signed by `{keyed.owner}`") from None
    if not appointed.holds(keyed.id, time.time()):
        raise ManagerUntrusted(
            keyed.name, "its appointment is for another type, has ended, or has a date ahead"
        )
    if appointed.manager != str(identity.public):
        raise ManagerUntrusted(keyed.name, f"the appointment is for the key `{appointed.manager}`")


def _plan(
    keyed: KeyedType,
    whole: bool,
    together: list[str],
    clear: list[str],
    sizes: tuple[int, ...],
    pace: float,
) -> Plan:
    ids = {name: id_ for id_, name in keyed.names.items()}
    unknown = [name for text in (*together, *clear) for name in text.split(",") if name not in ids]
    if unknown:
        raise InvalidPlan(f"must name attributes of the type, and `{unknown[0]}` is none")
    sealed = {id_ for name, id_ in ids.items() if name not in clear}
    if whole:
        return Plan(Plan.whole(keyed.id, sealed).groups, sizes, pace)
    parts = [[ids[name] for name in text.split(",")] for text in together]
    alone = sealed - {id_ for part in parts for id_ in part}
    return Plan(Plan.shared([*parts, *([id_] for id_ in alone)]).groups, sizes, pace)


def _sizes(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(each) for each in text.split(",") if each)
    except ValueError:
        raise InvalidPlan(f"must have size classes such as 32,128, not `{text}`") from None


def _parse_appointment(text: str, source: str) -> bytes:
    try:
        return base64.b64decode(text, validate=False)
    except binascii.Error:
        raise FileRefused(Path(source), "is no appointment: make one with `keys appoint`") from None


async def _until_stopped() -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await stop.wait()


def _say_ready(keyed: KeyedType, identity: Identity, plan: Plan, health: str, json: bool) -> None:
    if json:
        groups = {group.id: keyed.names_in(group) for group in plan.groups}
        ready = {"ready": True, "type": keyed.name, "manager": str(identity.public), "groups": groups}
        print_json({**ready, "health": health})
    else:
        count = len(plan.groups)
        err.print(
            f"[green]ready[/]: {keyed.name}, {count} key group{'s' * (count != 1)}; health on {health}",
            highlight=False,
            soft_wrap=True,
        )


def _show(found: KeyStatus) -> None:
    say(f"{printable(found.type)}, keys managed by {found.manager}")
    groups = sorted(found.groups, key=lambda group: group.attributes)
    say_table(("attributes", "epoch", "since", "next refresh", "members"), map(_row, groups))


def _row(group: GroupStatus) -> tuple[str, ...]:
    members = sum(not member.leaving for member in group.members)
    leaving = len(group.members) - members
    return (
        printable(", ".join(group.attributes)),
        str(group.epoch or "-"),
        _time(group.since),
        _time(group.next_refresh),
        f"{members}" + (f" and {leaving} leaving" if leaving else ""),
    )


def _time(at: float | None) -> str:
    return "-" if at is None else format_time(int(at))


@contextmanager
def _errors() -> Iterator[None]:
    """End with one line and the exit code that says whose fault it is."""
    try:
        yield
    except (TypeRefused, ManagerUntrusted) as error:
        fail(error, Exit.DENIED)
    except (InvalidPlan, PlanReplaced, InvalidCapability, InvalidKey) as error:
        fail(error, Exit.USAGE)
    except AuthFabricError as error:
        fail(error)
