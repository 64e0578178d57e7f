"""The command line: `authfabric`."""

from __future__ import annotations

import typer

from authfabric.commands import (
    ask,
    audit,
    broker,
    cap,
    demo,
    doctor,
    domain,
    event_type,
    experiment,
    keys,
    pdp,
    policy,
    roles,
    sdp,
    search,
    spark,
    up,
)

app = typer.Typer(
    name="authfabric",
    help="An authorization fabric: services ask, any policy decision point that can answer does.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
app.command("up")(up.up)
app.command("ask")(ask.ask)
app.command("doctor")(doctor.doctor)
app.add_typer(demo.app, name="demo")
app.add_typer(pdp.app, name="pdp")
app.add_typer(domain.app, name="domain")
app.add_typer(sdp.app, name="sdp")
app.add_typer(cap.app, name="cap")
app.add_typer(event_type.app, name="type")
app.add_typer(keys.app, name="keys")
app.add_typer(broker.app, name="broker")
app.add_typer(policy.app, name="policy")
app.add_typer(roles.app, name="roles")
app.add_typer(audit.app, name="audit")
app.add_typer(search.app, name="search")
app.add_typer(spark.app, name="spark")
app.command("experiment")(experiment.experiment)


def main() -> None:
    app()
