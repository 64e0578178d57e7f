"""`authfabric search`: who may do what, among the entities that the replicas know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import typer
from msgspec.structs import replace

from authfabric.commands.begin.ask import Insecure, TrustedKeys, asking, believed, read_attributes
from authfabric.files import find_url
from authfabric.terminal import Exit, Json, Url, err, fail, out, print_json, printable, run, with_option_types
from authz import Entity, InvalidRequest
from bus.wire import DEFAULT_DOMAIN, SearchPage, SearchQuery
from pep.trust import Trust

app = typer.Typer(help="Find who may do what, among known entities.", no_args_is_help=True)

Subject = Annotated[str, typer.Argument(help="Who; `team-*` stands for all that begin so.")]
Object = Annotated[
    str, typer.Argument(help="What it is done to: /sales/q1, or '/sales/*' for something below.")
]
Action = Annotated[str, typer.Argument(help="What is done, such as read.")]
SubjectAttributes = Annotated[
    list[str] | None,
    typer.Option("--subject", "-s", metavar="NAME=VALUE", help="An attribute of the subject."),
]
ObjectAttributes = Annotated[
    list[str] | None,
    typer.Option("--object", "-o", metavar="NAME=VALUE", help="An attribute of the object."),
]


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """How a search is made, whatever is searched for."""

    context: Annotated[
        list[str] | None,
        typer.Option("--context", "-c", metavar="NAME=VALUE", help="A fact of the context."),
    ] = None
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many to show.")] = 100
    cursor: Annotated[str, typer.Option(help="Go on where an earlier search ended.")] = ""
    everything: Annotated[bool, typer.Option("--all", help="Show all there are, page by page.")] = False
    domain: Annotated[str, typer.Option(help="The domain the objects belong to.")] = DEFAULT_DOMAIN
    deadline: Annotated[float, typer.Option(help="Seconds to wait for each page.")] = 10.0
    trust: TrustedKeys = None
    insecure: Insecure = False
    url: Url = None
    json: Json = False


@app.command()
@with_option_types
def subjects(
    object: Object, action: Action, *, object_attributes: ObjectAttributes = None, options: SearchOptions
) -> None:
    """Who may do ACTION to OBJECT?"""
    _run("subject", None, _entity(object, object_attributes), Entity(action), options)


@app.command()
@with_option_types
def objects(
    subject: Subject, action: Action, *, subject_attributes: SubjectAttributes = None, options: SearchOptions
) -> None:
    """What may SUBJECT do ACTION to?"""
    _run("object", _entity(subject, subject_attributes), None, Entity(action), options)


@app.command()
@with_option_types
def actions(
    subject: Subject,
    object: Object,
    *,
    subject_attributes: SubjectAttributes = None,
    object_attributes: ObjectAttributes = None,
    options: SearchOptions,
) -> None:
    """What may SUBJECT do to OBJECT?"""
    who, what = _entity(subject, subject_attributes), _entity(object, object_attributes)
    _run("action", who, what, None, options)


def _run(
    wanted: Literal["subject", "object", "action"],
    subject: Entity | None,
    object: Entity | None,
    action: Entity | None,
    options: SearchOptions,
) -> None:
    context = _context(options.context)
    query = SearchQuery(wanted, subject, object, action, context, options.limit, options.cursor)
    url = find_url(options.url)
    run(_search(query, options, url, believed(options.trust, options.insecure, url)))


async def _search(query: SearchQuery, options: SearchOptions, url: str, trust: Trust) -> None:
    found: list[str] = []
    async with asking(url, trust, options.domain, "search") as pep:
        while True:
            page = await pep.search(query, deadline=options.deadline)
            found += page.found
            if not options.json:
                _show(page)
            if not page.cursor or (not options.everything and len(found) >= query.limit):
                break
            query = replace(query, cursor=page.cursor)
    if options.json:
        print_json(
            {"found": found, "cursor": page.cursor, "epoch": page.epoch, "depends_on_context": page.depends}
        )
    elif not found and not page.cursor:
        err.print(f"no known {query.wanted} would be allowed", highlight=False)
    elif page.cursor:
        err.print(f"there may be more: --cursor {page.cursor}", highlight=False)
    if page.depends and not options.json:
        err.print(
            f"with other facts in the context ({printable(', '.join(page.depends))}) it may be otherwise:"
            " see --context",
            highlight=False,
            soft_wrap=True,
        )
    if not found:
        raise typer.Exit(Exit.DENIED)


def _show(page: SearchPage) -> None:
    for each in page.found:
        out.print(printable(each), highlight=False, soft_wrap=True)


def _entity(name: str, attributes: list[str] | None) -> Entity:
    try:
        return Entity(name, read_attributes(attributes))
    except InvalidRequest as error:
        fail(error, Exit.USAGE)


def _context(pairs: list[str] | None) -> dict[str, object]:
    try:
        return read_attributes(pairs)
    except InvalidRequest as error:
        fail(error, Exit.USAGE)
