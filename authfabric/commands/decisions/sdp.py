"""`authfabric sdp`: run a secondary decision point that several services share."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Sequence
from typing import Annotated

import typer

from authfabric.files import Chain, DecisionRight, Key, Trust, find_authority, find_url, trusted_keys
from authfabric.terminal import (
    Exit,
    HealthAddress,
    ListenOptions,
    Url,
    err,
    fail,
    print_json,
    run,
    with_option_types,
)
from authz import AuthFabricError, Decision, Request
from authz.errors import InvalidKey
from bus.errors import InvalidScope
from bus.nats import connect
from bus.runtime import TRACES, in_background
from bus.wire import DEFAULT_DOMAIN, InvalidTopic, Scope, Topic, without_secrets
from pdp.replica import Replica, serve_health
from pep import Enforcer, LeaseRules
from pep.metrics import EnforcerMetrics

app = typer.Typer(help="Run a secondary decision point that several services share.", no_args_is_help=True)


@app.callback()
def sdp() -> None:
    """Run a secondary decision point that several services share."""


class SharedPoint:
    """Decides what a PEP decides: from its caches, or by asking."""

    def __init__(self, pep: Enforcer) -> None:
        self._pep = pep

    async def decide_many(self, requests: Sequence[Request]) -> list[Decision]:
        return await self._pep.check_many(requests)


@app.command()
@with_option_types
def serve(
    *,
    serve_as: Annotated[
        str, typer.Option("--as", help="The domain name under which services ask it, such as the host's.")
    ],
    domain: Annotated[str, typer.Option(help="The domain for which it answers.")] = DEFAULT_DOMAIN,
    trust: Trust = None,
    lease: Annotated[
        float, typer.Option(min=0.1, help="Seconds without the policy feed after which all is asked.")
    ] = 10.0,
    stale_for: Annotated[
        float,
        typer.Option(help="Seconds after that for which the last known is served if no PDP answers."),
    ] = 0.0,
    deadline: Annotated[float, typer.Option(help="Seconds within which a PDP must answer it.")] = 0.8,
    key: Key = None,
    chain: Chain = None,
    learn: Annotated[
        list[str] | None,
        typer.Option(
            help="Also recycle what PDPs answer others: all, prefix:/PATH, object:NAME or roles:NAME,NAME."
            " Repeat it for several."
        ),
    ] = None,
    url: Url = None,
    health: ListenOptions,
    json: Annotated[bool, typer.Option("--json", help="Say in JSON when it is ready.")] = False,
) -> None:
    """Answer from caches, and ask the PDPs for what is not there, until SIGTERM or Ctrl-C.

    Services ask it by its own domain: Enforcer.connect(domain="the name given with --as").
    """
    if serve_as == domain:
        fail(
            f"`--as {serve_as}` must differ from the domain it answers for, or it would ask itself",
            Exit.USAGE,
        )
    try:
        keys, scope = trusted_keys(trust), Scope.parse(f"domain:{serve_as}")
        for text in learn or ():
            Topic.parse(text, domain)
        held = find_authority(key, chain)
    except (InvalidKey, InvalidScope, InvalidTopic) as error:
        fail(error, Exit.USAGE)
    except AuthFabricError as error:
        fail(error)
    rules, where = LeaseRules(lease, stale_for), find_url(url)
    asking = Enforcer.connect(
        where, domain=domain, deadline=deadline, trust=keys, lease=rules, name="sdp", learn=learn or ()
    )
    TRACES.start("authfabric-sdp")
    run(_serve(asking, scope, held, where, health.address(), json))


async def _serve(
    asking: contextlib.AbstractAsyncContextManager[Enforcer],
    scope: Scope,
    held: DecisionRight | None,
    url: str,
    health: HealthAddress,
    json: bool,
) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with (
        asking as pep,
        connect(url, name="sdp") as bus,
        Replica(
            bus, SharedPoint(pep), [scope], authority=held.authority if held is not None else None
        ) as replica,
        contextlib.AsyncExitStack() as stack,
    ):
        if held is not None:
            in_background(stack, held.keep_renewed)
        served = serve_health(replica, health.port, health.host, [EnforcerMetrics(pep)], health.tls)
        port = stack.enter_context(served)
        _say_ready(without_secrets(url), scope, health.at(port), json)
        await stop.wait()
    err.print(f"ended: {replica.answered} questions answered", highlight=False)


def _say_ready(url: str, scope: Scope, health: str, json: bool) -> None:
    if json:
        print_json({"ready": True, "url": url, "serves": [str(scope)], "health": health})
    else:
        err.print(
            f"[green]ready[/]: serves {scope} on {url}; health on {health}", highlight=False, soft_wrap=True
        )
