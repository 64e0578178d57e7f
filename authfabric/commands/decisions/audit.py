"""`authfabric audit`: see which decisions were given, and whether any are missing."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Sequence
from datetime import datetime
from time import time
from typing import Annotated

import typer
from msgspec import json as documents
from msgspec import structs

from authfabric.commands.begin.ask import decision_document, why
from authfabric.commands.decisions import audit_query
from authfabric.files import CONNECT_SECONDS, Trust, find_url, trusted_keys
from authfabric.terminal import (
    Exit,
    Json,
    Url,
    counted,
    fail,
    option_seconds,
    print_json,
    printable,
    run,
    say,
)
from authz import AuthFabricError, PublicKey
from authz.decision import Effect
from bus.audit import (
    AuditRecord,
    AuditStore,
    ChainVerifier,
    DecisionFilter,
    Disclosure,
    Vouchers,
    read_head,
    read_record,
)
from bus.nats import connect
from bus.wire import DEFAULT_DOMAIN

LOOK_SECONDS = 1.0

app = typer.Typer(help="See which decisions were given, and whether any are missing.", no_args_is_help=True)

app.command("query")(audit_query.query)

Domain = Annotated[str, typer.Option(help="The domain in which they were given.")]


@app.command()
def verify(
    signed: Annotated[
        bool,
        typer.Option("--signed", help="Also see whether PDPs have signed the decisions said to be theirs."),
    ] = False,
    trust: Trust = None,
    domain: Domain = DEFAULT_DOMAIN,
    url: Url = None,
    json: Json = False,
) -> None:
    """Follow every writer's chain through the audit stream; exit code 1 if one breaks, or lacks decisions.

    Forgery, loss and crashes are told apart. The first record that is missing, altered or foreign is named for each
    writer, at the end of a chain too; so is how many decisions it says that it could not record. With --signed, exit
    code 1 also if a decision was recorded as a PDP's and no PDP that may make it has signed it; what was decided just
    before a PDP ended without a word is counted by itself.
    """
    try:
        vouchers = Vouchers(trusted_keys(trust)) if signed else None
    except AuthFabricError as error:
        fail(error, Exit.USAGE)
    chains = run(_verify(find_url(url), domain, vouchers))
    ended = [name for name, each in chains.writers.items() if each.closed]
    if json:
        print_json(_document(chains) | (_vouchers_document(vouchers, ended) if vouchers else {}))
    elif not chains.writers:
        say(f"no decision in `{printable(domain)}` was audited yet")
    else:
        _show_chains(chains)
        if vouchers is not None:
            _show_vouchers(vouchers, ended)
    lost = any(each.dropped for each in chains.writers.values())
    if chains.broken or lost or (vouchers is not None and _unsigned(vouchers, ended)):
        raise typer.Exit(Exit.DENIED)


@app.command()
def tail(
    count: Annotated[
        int, typer.Option("--count", "-n", min=1, help="How many of the newest decisions to begin with.")
    ] = 10,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
    subject: Annotated[
        str, typer.Option(help="Only where the subject contains this, or fits it with `*`.")
    ] = "",
    object: Annotated[str, typer.Option(help="The same of the object.")] = "",
    action: Annotated[str, typer.Option(help="The same of the action.")] = "",
    effect: Annotated[Effect | None, typer.Option(help="Only what was allowed, or denied.")] = None,
    policy: Annotated[str, typer.Option(help="Only what such a policy decided.")] = "",
    since: Annotated[str, typer.Option(help="Only what was decided within so long: 90s, 15m, 8h, 30d.")] = "",
    until: Annotated[str, typer.Option(help="Only what was decided so long ago, or before.")] = "",
    domain: Domain = DEFAULT_DOMAIN,
    url: Url = None,
    json: Json = False,
) -> None:
    """Show the decisions given last, and with -f those to come; with --json one line for each."""
    wanted = DecisionFilter(
        subject,
        object,
        action,
        effect or "",
        policy,
        time() - option_seconds("--since", since) if since else 0.0,
        time() - option_seconds("--until", until) if until else float("inf"),
    )
    run(_tail(find_url(url), domain, wanted, count, follow, json))


async def _verify(url: str, domain: str, vouchers: Vouchers | None) -> ChainVerifier:
    async with connect(url, name="audit", connect_seconds=CONNECT_SECONDS) as bus:
        store = AuditStore(bus, domain)
        heads = [read_head(data, writer) async for writer, data in store.heads()]
        kept = await store.kept()
        chains = ChainVerifier(whole=kept.start == 1)
        async for page in store.read(kept.start - 1):
            chains.take(page.writer, page.records)
            for record in map(read_record, page.records if vouchers else ()):
                if record is not None and vouchers is not None:
                    vouchers.take(record)
    chains.finish((head for head in heads if head is not None), kept.start)
    return chains


async def _tail(url: str, domain: str, wanted: DecisionFilter, count: int, follow: bool, json: bool) -> None:
    async with connect(url, name="audit", connect_seconds=CONNECT_SECONDS) as bus:
        store, news = AuditStore(bus, domain), asyncio.Event()
        await store.listen(news.set)
        after = max(0, (await store.kept()).stop - 1 - count) if wanted.wants_all else 0  # no page is empty
        shown = count
        while True:
            news.clear()
            records: deque[AuditRecord | None] = deque(maxlen=shown or None)
            async for page in store.read(after):
                after = page.number
                records.extend(each for each in map(read_record, page.records) if _wanted(each, wanted))
            for record in records:
                _show(record, json)
            if not follow:
                return
            shown = 0
            with contextlib.suppress(TimeoutError):  # the word of a page may come before it can be read
                async with asyncio.timeout(LOOK_SECONDS):
                    await news.wait()


def _wanted(record: AuditRecord | None, wanted: DecisionFilter) -> bool:
    """Whether it is shown: decisions that fit, and everything else only where nothing is filtered."""
    if record is None or record.request is None or record.decision is None:
        return wanted.wants_all
    return wanted.fits(record.request, record.decision, record.at)


def _show(record: AuditRecord | None, json: bool) -> None:
    if json:
        print_json(_record_document(record) if record else {"unreadable": True}, line=True)
    elif record is None:
        say("[red]unreadable[/]")
    else:
        when = datetime.fromtimestamp(record.at).astimezone().strftime("%Y-%m-%d %H:%M:%S")
        say(f"[dim]{when} {printable(record.writer)} {record.sequence}[/]  {_words(record)}")


def _words(record: AuditRecord) -> str:
    if record.vouched is not None:
        return f"[dim]signed {counted(record.vouched.statement.count, 'decision')}[/]"
    if record.disclosed is not None:
        return _disclosed_words(record.disclosed)
    if record.request is None or record.decision is None:
        return f"[yellow]{record.dropped} decisions were not recorded[/]"
    decision = record.decision
    how = decision.inferred
    source = f"{how.method}{', stale' if how.stale else ''}" if how is not None else "asked"
    colour = "green" if decision.allowed else "red"
    release = f" ({record.release.hex()[:12]})" if record.release else ""
    asked = documents.encode(record.request.context).decode() if record.request.context else ""
    return (
        f"[bold {colour}]{decision.effect}[/]  {printable(str(record.request))}{printable(asked and ' ' + asked)}"
        f"  [dim]{printable(why(decision))}; {source}, epoch {decision.epoch}{release}[/]"
    )


def _disclosed_words(shown: Disclosure) -> str:
    became = f" as {printable(shown.shown)}" if shown.shown != shown.type else ""
    events = counted(len(shown.events), "past event" if shown.replayed else "event")
    what = f"{events} of {printable(shown.type)}{became}"
    attributes, rules = ", ".join(shown.attributes), ", ".join(shown.rules)
    why = f"[dim]{printable(attributes)}; {printable(rules)}[/]"
    return f"[bold blue]shown[/]  {printable(shown.subject)}: {what}  {why}"


def _record_document(record: AuditRecord) -> dict[str, object]:
    document: dict[str, object] = {"writer": record.writer, "sequence": record.sequence, "at": record.at}
    if record.vouched is not None:
        statement = record.vouched.statement
        signer = str(PublicKey(statement.signer))
        return document | {"signed": statement.count, "signer": signer, "root": statement.root.hex()}
    if record.disclosed is not None:
        events = [
            {"publisher": str(PublicKey(key)), "sequence": number, "time": at}
            for key, number, at in record.disclosed.events
        ]
        return document | {"disclosed": structs.asdict(record.disclosed) | {"events": events}}
    if record.request is None or record.decision is None:
        return document | {"dropped": record.dropped}
    return (
        document
        | decision_document(record.request, record.decision)
        | {"context": record.request.context, "inferred": record.decision.inferred}
        | {"release_hash": record.release.hex()}
    )


def _document(chains: ChainVerifier) -> dict[str, object]:
    return {
        "holds": not chains.broken,
        "lost": sum(each.dropped for each in chains.writers.values()),
        "unended": [name for name, each in chains.writers.items() if each.closed is False],
        "writers": {
            name: {
                "from": chains.starts[name],
                "to": each.head.sequence,
                "dropped": each.dropped,
                "waiting": each.waiting,
                "broken": each.broken,
                "closed": each.closed,
            }
            for name, each in chains.writers.items()
        },
    }


def _show_chains(chains: ChainVerifier) -> None:
    """Show each chain that breaks, lacks something or goes on, and of those that are whole how many there are."""
    whole = 0
    for name, each in chains.writers.items():
        if each.broken is None and each.closed and not each.dropped:
            whole += 1
            continue
        dropped = (
            f"; [red]lost[/]: {each.dropped:,} decisions that it could not record" if each.dropped else ""
        )
        if each.waiting:
            dropped += f"; {each.waiting:,} decisions waited to be stored, and are lost if it has crashed"
        if each.broken is None:
            ended = {
                True: ", where it ended",
                False: "; its writer has not ended it: it runs still, or has crashed",
                None: ", if nothing was cut off after it",
            }[each.closed]
            state = f"[green]holds[/] from {chains.starts[name]} to {each.head.sequence}{ended}"
        else:
            state = f"[red]breaks[/]: record {each.broken.sequence} {printable(each.broken.problem)}"
        say(f"[bold]{printable(name)}[/]: {state}{dropped}")
    if whole:
        say(
            f"{whole:,} "
            + ("chains hold to where they ended" if whole > 1 else "chain holds to where it ended")
        )


def _unsigned(vouchers: Vouchers, ended: Sequence[str]) -> dict[str, list[int]]:
    """The decisions that nobody signed and no crash accounts for."""
    pending = vouchers.unconfirmed(ended)
    left = {name: sorted({*numbers} - {*pending.get(name, ())}) for name, numbers in vouchers.missing.items()}
    return {name: numbers for name, numbers in left.items() if numbers}


def _vouchers_document(vouchers: Vouchers, ended: Sequence[str]) -> dict[str, object]:
    return {
        "signed": vouchers.vouched,
        "masked": vouchers.masked,
        "unsigned": _unsigned(vouchers, ended),
        "unconfirmed": vouchers.unconfirmed(ended),
        "refused_statements": vouchers.refused,
    }


def _show_vouchers(vouchers: Vouchers, ended: Sequence[str]) -> None:
    say(f"{vouchers.vouched:,} decisions were signed by PDPs that may make them")
    if vouchers.masked:
        say(f"{counted(vouchers.masked, 'decision')} masked: which hash is theirs, their writers say")
    if vouchers.refused:
        say(f"[red]{vouchers.refused:,} statements do not hold[/]")
    if pending := sum(map(len, vouchers.unconfirmed(ended).values())):
        say(
            f"[yellow]{counted(pending, 'decision')}[/] at the end of what a PDP has signed, which has crashed or has"
            " not signed all yet"
        )
    for writer, numbers in _unsigned(vouchers, ended).items():
        first = ", ".join(map(str, numbers[:5])) + (", …" if len(numbers) > 5 else "")
        say(f"[bold]{printable(writer)}[/]: [red]{len(numbers):,} decisions that no PDP signed[/]: {first}")
