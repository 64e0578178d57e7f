"""`authfabric event plan|apply|schema`: what a file says of an event application, made so.

What makes it is loaded when it is asked for: those who publish need none of it.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from authfabric.files import CONNECT_SECONDS, find_url, replace_file
from authfabric.terminal import (
    Exit,
    Json,
    Url,
    counted,
    err,
    fail,
    print_json,
    printable,
    program,
    run,
    say,
    waiting,
)
from authz import AuthFabricError
from bus.identity import find_running
from bus.nats import connect

if TYPE_CHECKING:
    from authfabric.applications import Application, ApplicationFolder, Step

File = Annotated[Path, typer.Argument(help="What the application is: types, brokers, clients. YAML.")]
Keys = Annotated[
    Path | None,
    typer.Option(
        "--keys", metavar="DIR", help="Where its keys are kept. Default: a folder below the data folder."
    ),
]
SIGNS = {"+": "green", "~": "yellow", "-": "red"}


def plan(file: File, keys: Keys = None, url: Url = None, json: Json = False) -> None:
    """Show what `apply` would do, and do nothing."""
    folder = _folder(file, keys)
    steps = run(_plan(folder, find_url(url)))
    if json:
        print_json(_document(folder.application, steps))
        return
    _show(folder.application, steps)


def apply(
    file: File,
    keys: Keys = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask before something is taken away from somebody.")
    ] = False,
    url: Url = None,
    json: Json = False,
) -> None:
    """Make keys, types, policies, profiles and brokers as a file says; what is so already is left as it is.

    It shows first what it does, and asks before anybody loses anything by it. Exit code 0: all is as the file says. 1:
    it was not to be done. 2: the file says something that cannot be meant. 3: something could not be done.
    """
    folder = _folder(file, keys)
    app, where = folder.application, find_url(url)
    steps = run(_plan(folder, where))
    if not json:
        _show(app, steps)
    lost = [each for each in steps if each.loses]
    if lost and not yes and not _agreed():
        err.print("nothing was changed", highlight=False)
        raise typer.Exit(Exit.DENIED)
    hosted = run(_apply(folder, where, json))
    if json:
        print_json({**_document(app, steps), "runs": hosted})
    elif hosted:
        _say_next(app)
    else:
        _say_commands(folder)


def _agreed() -> bool:
    """Ask; where nobody is there to answer, it is not agreed to."""
    try:
        return typer.confirm("Some of it takes something away. Do it?", err=True)
    except typer.Abort:
        err.print()
        return False


def schema(
    output: Annotated[
        Path | None, typer.Option("--out", help="The file to write. Default: print it.")
    ] = None,
) -> None:
    """Write the JSON Schema of application files, by which editors complete and check them."""
    from authfabric.applications import application_schema

    text = msgspec.json.format(msgspec.json.encode(application_schema()), indent=2).decode() + "\n"
    _write(text, output)


def _write(text: str, output: Path | None) -> None:
    if output is None:
        typer.echo(text, nl=False)
        return
    try:
        replace_file(output, text)
    except AuthFabricError as error:
        fail(error)


def stubs(
    file: File,
    output: Annotated[
        Path | None, typer.Option("--out", help="The file to write. Default: print it.")
    ] = None,
) -> None:
    """Write Python classes for an application's types, for `client.subscribe(Sighting, Sighting.plate == "AB12")`."""
    from authfabric.applications import definitions
    from pubsub_core.client import stubs as written

    _write(written(definitions(_folder(file, None).application)), output)


def _folder(file: Path, keys: Path | None) -> ApplicationFolder:
    from authfabric.applications import (
        ApplicationFolder,
        InvalidApplication,
        check_rules,
        read_application,
        usual_folder,
    )

    try:
        application = read_application(file)
        check_rules(application, file)
    except InvalidApplication as error:
        fail(error, Exit.USAGE)
    except AuthFabricError as error:
        fail(error)
    return ApplicationFolder((keys or usual_folder(application.name)).absolute(), application)


async def _plan(folder: ApplicationFolder, url: str) -> list[Step]:
    from authfabric.applications import ApplicationStore, Steps

    async with connect(url, name="event", connect_seconds=CONNECT_SECONDS) as bus:
        return await Steps(folder, ApplicationStore(bus, folder.application.domain)).find()


async def _apply(folder: ApplicationFolder, url: str, json: bool) -> bool:
    """Do what is to be done; says whether the brokers run here."""
    from authfabric.applications import ApplicationStore, Steps, until_ready

    async with connect(url, name="event", connect_seconds=CONNECT_SECONDS) as bus:
        steps = Steps(folder, ApplicationStore(bus, folder.application.domain))
        with waiting("applying", quiet=json):
            for each in await steps.find():
                await each.do()
            await steps.host()
        running = find_running()
        if running is None or not running.events or running.url != url:
            return False
        with waiting("waiting until brokers are up and hold their keys", quiet=json):
            await until_ready(bus, folder)
    return True


def _show(app: Application, steps: list[Step]) -> None:
    if not steps:
        say(f"{app.name}: all is as the file says")
        return
    say(f"{app.name}: {counted(len(steps), 'change')}")
    for each in steps:
        say(f"  [{SIGNS[each.sign]}]{each.sign}[/] {printable(each.text)}")


def _document(app: Application, steps: list[Step]) -> dict[str, object]:
    changes = [{"sign": each.sign, "what": each.text, "loses": each.loses} for each in steps]
    return {"application": app.name, "changes": changes}


def _say_next(app: Application) -> None:
    """What can be done now, to be copied."""
    say(f"[green]ready[/]: {', '.join(app.brokers)}")
    publisher = next((each for each in app.clients.values() if each.publishes), None)
    reader = next((each for each in app.clients.values() if each.subscribes), None)
    if publisher is not None:
        spec = app.types[publisher.publishes[0]]
        values = " ".join(f"{name}=…" for name in spec.attributes)
        say(f"  {program()} event publish {spec.name} {values} --as {publisher.name}")
    if reader is not None:
        say(f"  {program()} event subscribe {next(iter(reader.subscribes))} --as {reader.name}")


def _say_commands(folder: ApplicationFolder) -> None:
    """How to start what nobody starts here."""
    from authfabric.applications import hosted_application

    say(
        "`authfabric up --events` runs these here; elsewhere, start them by hand, each with credentials of its own:"
    )
    for each in hosted_application(folder).processes:
        say(f"  {printable(shlex.join([program(), *each.words]))}")
