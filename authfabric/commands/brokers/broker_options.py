"""The options of `authfabric broker serve`, by what they are about."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from authfabric.files import Database, HistoryKey, KeepFile, NamesOption, NetworkKey, history_setting
from bus.wire import DEFAULT_DOMAIN
from pubsub_core.functions import Limits
from pubsub_core.history import HistorySetting


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """Which broker it is, and whose clients it serves."""

    key: Annotated[Path, typer.Option("--key", help="The broker's own key file.")]
    clients: Annotated[
        list[str],
        typer.Option(
            "--clients",
            metavar="DOMAIN=KEY|FILE",
            help="A domain whose credentials count, and the key that signs them. Repeatable.",
        ),
    ]
    name: Annotated[str, typer.Option(help="Its name, which no other broker has. Default: the host's.")] = ""
    domain: Annotated[str, typer.Option(help="Its domain, whose PDPs it asks.")] = DEFAULT_DOMAIN
    group: Annotated[
        str,
        typer.Option(
            "--group",
            help="The group by which clients find it or any other broker of the group, one in place of the other.",
        ),
    ] = ""


@dataclass(frozen=True, slots=True)
class TrustOptions:
    """Whom it believes: PDPs, other brokers, owners of types."""

    trust: Annotated[
        list[str] | None,
        typer.Option(
            "--trust",
            metavar="KEY|FILE",
            help="Whose releases of policies and tables of context count, and whose PDPs. Repeatable."
            " Default: AUTHFABRIC_TRUST, the key of the `up` that runs here, or those in its credentials.",
        ),
    ] = None
    insecure: Annotated[
        bool,
        typer.Option("--insecure", help="Believe whichever PDP answers, and follow nobody's releases."),
    ] = False
    roots: Annotated[
        list[str] | None,
        typer.Option(
            "--root", metavar="KEY|FILE", help="Who may vouch for brokers besides type owners. Repeatable."
        ),
    ] = None
    vouches: Annotated[
        list[Path] | None,
        typer.Option(
            "--vouch",
            metavar="FILE|DIR",
            help="A word for this broker, or another; or a folder of such `.vouch` files. Repeatable. New ones count"
            " without a restart.",
        ),
    ] = None
    owner_keys: Annotated[
        list[Path] | None,
        typer.Option(
            "--owner-key", help="The key file of a type owner whose heartbeats it sends. Repeatable."
        ),
    ] = None
    owners: Annotated[
        Path | None,
        typer.Option(
            "--owners", help="A file of type owners without whose capability nobody uses their types."
        ),
    ] = None
    names: NamesOption = None
    share: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="The share of other brokers' events that is verified.")
    ] = 1.0
    known: Annotated[
        Path | None,
        typer.Option(
            help="The file that remembers which owners send heartbeats; who manages keys is remembered beside it."
            " Default: one below the state folder."
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class SealingOptions:
    """How it comes to the keys of types that travel encrypted."""

    sealed: Annotated[
        list[str] | None,
        typer.Option(
            "--sealed",
            metavar="TYPE=FILE|DIR",
            help="A type that travels encrypted, and the capability by which its keys are asked for; or a folder of"
            " such files, each called TYPE.cap. Repeatable. New ones count without a restart.",
        ),
    ] = None
    blanket: Annotated[
        Path | None,
        typer.Option(
            "--blanket",
            help="What its domain passes on to this broker (`cap issue` by the domain's key, `resource: *`,"
            " `action: *`): what the domain was or will be granted by `--sealed` serves the broker too.",
        ),
    ] = None
    network_key: NetworkKey = None


@dataclass(frozen=True, slots=True)
class HomeOptions:
    """The server of its own domain, where that is another than the network's."""

    home: Annotated[
        str,
        typer.Option(
            help="The server of its own domain, with PDPs and policies, if it is not the network's."
        ),
    ] = ""
    home_credentials: Annotated[
        Path | None,
        typer.Option(help="The file of credentials for that server. Default: the same as for the network's."),
    ] = None


@dataclass(frozen=True, slots=True)
class FunctionOptions:
    """Functions that rules may call, and what they may use."""

    functions: Annotated[
        str, typer.Option("--functions", metavar="MODULE", help="A Python module of functions for rules.")
    ] = ""
    function_seconds: Annotated[
        float, typer.Option(min=0.001, help="How long one of them may take, in seconds.")
    ] = Limits().seconds
    function_memory: Annotated[int, typer.Option(min=64, help="How much memory they may use, in MiB.")] = (
        Limits().memory >> 20
    )
    functions_unconfined: Annotated[
        bool,
        typer.Option(
            "--functions-unconfined",
            help="Run them without being confined by the system. They can then do whatever this broker can.",
        ),
    ] = False

    def limits(self) -> Limits:
        memory = self.function_memory << 20
        return Limits(self.function_seconds, memory, confined=not self.functions_unconfined)


@dataclass(frozen=True, slots=True)
class HistoryOptions:
    """Where events are kept, and for how long."""

    history: Database = None
    history_key: HistoryKey = None
    keep: KeepFile = None

    def setting(self, broker: str) -> HistorySetting | None:
        """None if nothing is kept. Raises FileRefused and KeyFileRefused."""
        return history_setting(self.history, self.history_key, self.keep, broker)
