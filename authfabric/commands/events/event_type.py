"""`authfabric type`: define event types, sign and edit them, verify and publish their definitions."""

from __future__ import annotations

from pathlib import Path
from time import time
from typing import Annotated
from uuid import uuid4

import typer
from msgspec import to_builtins

from authfabric.commands.events.event_type_policy import policy
from authfabric.commands.events.type_errors import type_errors
from authfabric.files import (
    FileRefused,
    NamesOption,
    NetworkKey,
    find_trust,
    find_url,
    read_draft,
    read_file,
    read_names,
    read_network_key,
    read_signed_types,
    read_type,
    write_type,
)
from authfabric.terminal import (
    Json,
    OutFile,
    SignerKey,
    Url,
    out,
    passphrase,
    print_json,
    printable,
    run,
    say,
    say_table,
)
from authz import PublicKey
from authz.spki import encode_chain, parse_chain
from bus.identity import load_key, load_public_key
from bus.nats import connect
from pep import NobodyTrusted
from pubsub_core.errors import InvalidType, TypeRefused
from pubsub_core.stores import TypeStore
from pubsub_core.types import (
    DEFAULT_BITS,
    EVERY,
    MAX_BITS,
    Added,
    Attribute,
    AttributeType,
    Catalogue,
    Edit,
    EventType,
    Names,
    Removed,
    Renamed,
    Retyped,
    SignedType,
    apply,
    find,
)

app = typer.Typer(help="Event types: definitions that their owners sign.", no_args_is_help=True)
app.command()(policy)

Chain = Annotated[
    Path | None, typer.Option("--chain", help="The capability chain that lets you, if you are not the owner.")
]
Trust = Annotated[
    list[str] | None,
    typer.Option(
        "--trust",
        metavar="KEY|FILE",
        help="Who is trusted with all names of which --names does not say whose they are. Repeatable."
        " Default: AUTHFABRIC_TRUST, or the key of the `up` that runs here.",
    ),
]
Known = Annotated[
    list[Path] | None,
    typer.Option("--with", help="A signed definition that this one builds on. Repeat it for several."),
]


@app.command()
def new(
    name: Annotated[
        str, typer.Argument(help="Its name: words joined by dots, such as uk.gov.pito.Sighting.")
    ],
    owner: Annotated[str, typer.Option("--owner", help="The owner's public key, or the file that holds it.")],
    output: OutFile,
    attributes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME:TYPE]...", help=f"Its attributes; types: {', '.join(AttributeType)}."),
    ] = None,
    extends: Annotated[
        Path | None, typer.Option("--extends", help="The signed definition of the type it extends.")
    ] = None,
    chain: Chain = None,
    routed: Annotated[
        str,
        typer.Option(
            "--routed",
            metavar="NAME",
            help="The attribute by whose value events are routed: brokers read those their clients ask for by"
            " == or in. Servers see a keyed digest of it.",
        ),
    ] = "",
    bits: Annotated[
        int, typer.Option(min=1, max=MAX_BITS, help="How many bits of that digest; with --routed.")
    ] = DEFAULT_BITS,
    storage: Annotated[
        str,
        typer.Option(
            help="How events are kept on the way: file, memory, or a class of `domain serve --storage`."
        ),
    ] = "file",
    governed: Annotated[
        bool,
        typer.Option(
            "--governed",
            help="Nobody uses the type at a broker that does not know its owner's `type policy`.",
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Draft a type, with new UUIDs. Its owner signs it next."""
    with type_errors():
        parent = read_type(extends).definition if extends else None
        right = encode_chain(read_file(chain, parse_chain)) if chain else b""
        pairs = [_pair(each) for each in attributes or []]
        key = load_public_key(owner)
        draft = EventType.new(
            name,
            key,
            pairs,
            uuid4,
            parent,
            right,
            routed=routed,
            storage=storage,
            bits=bits,
            governed=governed,
        )
        write_type(output, draft)
    _show(draft, json)


@app.command()
def sign(
    draft: Annotated[Path, typer.Argument(help="What `type new` wrote.")],
    key: SignerKey,
    output: OutFile,
    install: Annotated[
        list[Path] | None,
        typer.Option(
            "--install", help="A capability to `define` types of this name, which goes with it. Repeatable."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Sign a draft as its owner."""
    with type_errors():
        definition, signer = read_draft(draft), load_key(key, passphrase.known)
        if str(signer.public) != definition.owner:
            raise TypeRefused(definition.name, f"only its owner `{definition.owner}` can sign a draft")
        installs = [read_file(path, parse_chain) for path in install or []]
        write_type(output, SignedType.sign(definition, signer, at=time(), install=installs))
    _show(definition, json)


@app.command()
def edit(
    signed: Annotated[Path, typer.Argument(help="The signed definition to begin from.")],
    key: SignerKey,
    output: OutFile,
    add: Annotated[list[str] | None, typer.Option("--add", metavar="NAME:TYPE")] = None,
    remove: Annotated[list[str] | None, typer.Option("--remove", metavar="NAME")] = None,
    rename: Annotated[list[str] | None, typer.Option("--rename", metavar="OLD=NEW")] = None,
    retype: Annotated[list[str] | None, typer.Option("--retype", metavar="NAME:TYPE")] = None,
    chain: Chain = None,
    known: Known = None,
    json: Json = False,
) -> None:
    """Make and sign the next version. Each change is a right of its own, which the owner has and can grant."""
    with type_errors():
        catalogue = _catalogue(read_signed_types(known or []))
        old = catalogue.accept(read_type(signed), time())
        changes = _changes(old, add or [], remove or [], rename or [], retype or [])
        links = read_file(chain, parse_chain) if chain else ()
        version = SignedType.sign(apply(old, changes), load_key(key, passphrase.known), links, time())
        catalogue.accept(version, time())
        write_type(output, version)
    _show(version.definition, json)


@app.command()
def show(
    file: Annotated[Path, typer.Argument(help="A draft or a signed definition.")], json: Json = False
) -> None:
    """Show what a file says. Nothing is verified."""
    with type_errors():
        try:
            definition = read_type(file).definition
        except FileRefused:
            definition = read_draft(file)
    _show(definition, json)


@app.command()
def verify(
    files: Annotated[list[Path], typer.Argument(help="Signed definitions, each after those it builds on.")],
    json: Json = False,
) -> None:
    """Verify definitions: signatures, the right to extend, and the right to each edit.

    Exit code 0: all are sound. 1: one is not; it is named, with what it lacks.
    """
    with type_errors(json):
        _catalogue(read_signed_types(files))
    if json:
        print_json({"sound": True})
    else:
        out.print(f"{len(files)} sound", highlight=False)


@app.command()
def publish(
    files: Annotated[list[Path], typer.Argument(help="Signed definitions, each after those it builds on.")],
    network_key: NetworkKey = None,
    url: Url = None,
    json: Json = False,
) -> None:
    """Verify definitions and put them where every broker finds them."""
    with type_errors(json):
        signed = read_signed_types(files)
        run(_publish(find_url(url), signed, read_network_key(network_key)))
    if json:
        print_json({"published": [each.definition.version for each in signed]})
    else:
        for each in signed:
            out.print(f"published {each.definition.name}, version {each.definition.version}", highlight=False)


@app.command("list")
def list_(
    names: NamesOption = None,
    trust: Trust = None,
    network_key: NetworkKey = None,
    url: Url = None,
    json: Json = False,
) -> None:
    """Show the types in the store: whose they are, and whether their names mean them to whoever trusts these keys."""
    with type_errors():
        where = find_url(url)
        said = read_names(names)
        trusted = said if any(each == EVERY for each, _ in said) else (*said, *_all_names(trust, where))
        rows = run(_list(where, Names(trusted), read_network_key(network_key)))
    if json:
        print_json([{**to_builtins(each), "trusted": meant} for each, meant in rows])
        return
    say_table(
        ("type", "owner", "trusted", "version"),
        [(printable(each.name), each.owner, "yes" if meant else "no", each.version) for each, meant in rows],
    )


def _all_names(trust: list[str] | None, url: str) -> list[tuple[str, PublicKey]]:
    """Who is trusted with all names; nobody, if nobody says whom to trust."""
    try:
        return [(EVERY, key) for key in find_trust(trust, url)]
    except NobodyTrusted:
        return []


async def _list(url: str, names: Names, network: bytes) -> list[tuple[EventType, bool]]:
    """The newest version of each type, and whether its name means it."""
    every, trusted = Catalogue(), Catalogue(names)
    async with connect(url, name="type") as bus:
        for catalogue in (every, trusted):
            await TypeStore(bus, catalogue, network).refresh()
    found = {each.definition.id: every.newest(each.definition.id) for each in every}
    return [
        (each, trusted.knows(each.id) and trusted.label(each) == each.name)
        for each in sorted(found.values(), key=lambda each: (each.name, each.owner))
    ]


async def _publish(url: str, signed: list[SignedType], network: bytes) -> None:
    async with connect(url, name="type") as bus:
        store = TypeStore(bus, Catalogue(), network)
        for each in signed:
            await store.publish(each)


def _catalogue(signed: list[SignedType]) -> Catalogue:
    catalogue = Catalogue()
    for each in signed:
        catalogue.accept(each, time())
    return catalogue


def _pair(text: str) -> tuple[str, AttributeType]:
    name, colon, type_ = text.partition(":")
    if not colon or type_ not in set(AttributeType):
        raise InvalidType(
            "attributes", f"`{text}` must be NAME:TYPE, with a type of {', '.join(AttributeType)}"
        )
    return name, AttributeType(type_)


def _changes(
    old: EventType, add: list[str], remove: list[str], rename: list[str], retype: list[str]
) -> list[Edit]:
    changes: list[Edit] = [Removed(find(old, name)) for name in remove]
    for text in rename:
        name, equals, other = text.partition("=")
        if not equals:
            raise InvalidType("--rename", f"`{text}` must be OLD=NEW")
        changes.append(Renamed(find(old, name), other))
    changes += [Retyped(find(old, name), type_) for name, type_ in map(_pair, retype)]
    changes += [Added(Attribute(name, uuid4().hex, type_)) for name, type_ in map(_pair, add)]
    if not changes:
        raise InvalidType("edit", "changes nothing: say what to add, remove, rename or retype")
    return changes


def _show(definition: EventType, json: bool) -> None:
    if json:
        print_json(definition)
        return
    say(f"{printable(definition.name)}, version {definition.version}")
    rows = [(printable(each.name), each.type.value, each.id) for each in definition.attributes]
    say_table(("attribute", "type", "UUID"), rows)
