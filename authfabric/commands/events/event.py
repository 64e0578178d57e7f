"""`authfabric event`: an application from one file, and its events: publish, subscribe, replay, tail."""

from __future__ import annotations

import typer

from authfabric.commands.events import event_apply, event_bridge, event_stream

app = typer.Typer(
    help="Event applications from one file, and their events: publish, subscribe, replay.",
    no_args_is_help=True,
)
app.command()(event_apply.apply)
app.command()(event_apply.plan)
app.command()(event_stream.publish)
app.command()(event_stream.subscribe)
app.command()(event_stream.replay)
app.command()(event_stream.tail)
app.command()(event_bridge.bridge)
app.command()(event_apply.stubs)
app.command()(event_apply.schema)
