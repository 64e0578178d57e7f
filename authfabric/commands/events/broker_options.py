"""The options of `authfabric broker serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

BrokerKey = Annotated[Path, typer.Option("--key", help="The broker's own key file.")]
ClientDomains = Annotated[
    list[str],
    typer.Option(
        "--clients",
        metavar="DOMAIN=KEY|FILE",
        help="A domain whose credentials count, and the key that signs them. Repeatable.",
    ),
]
BrokerName = Annotated[str, typer.Option(help="Its name, which no other broker has. Default: the host's.")]
BrokerGroup = Annotated[
    str,
    typer.Option(
        "--group",
        help="The group by which clients find it or any other broker of the group, one in place of the other.",
    ),
]
BrokerDomain = Annotated[str, typer.Option(help="Its domain, whose PDPs it asks.")]
TrustedKeys = Annotated[
    list[str] | None,
    typer.Option(
        "--trust",
        metavar="KEY|FILE",
        help="Whose releases of policies and tables of context count, and whose PDPs. Repeatable."
        " Default: AUTHFABRIC_TRUST, the key of the `up` that runs here, or those in its credentials.",
    ),
]
Insecure = Annotated[
    bool,
    typer.Option("--insecure", help="Believe whichever PDP answers, and follow nobody's releases."),
]
VouchingRoots = Annotated[
    list[str] | None,
    typer.Option(
        "--root", metavar="KEY|FILE", help="Who may vouch for brokers besides type owners. Repeatable."
    ),
]
VouchFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--vouch",
        metavar="FILE|DIR",
        help="A word for this broker, or another; or a folder of such `.vouch` files. Repeatable. New ones count"
        " without a restart.",
    ),
]
OwnerKeys = Annotated[
    list[Path] | None,
    typer.Option("--owner-key", help="The key file of a type owner whose heartbeats it sends. Repeatable."),
]
OwnersFile = Annotated[
    Path | None,
    typer.Option("--owners", help="A file of type owners without whose capability nobody uses their types."),
]
VerifiedShare = Annotated[
    float, typer.Option(min=0.0, max=1.0, help="The share of other brokers' events that is verified.")
]
SealedTypes = Annotated[
    list[str] | None,
    typer.Option(
        "--sealed",
        metavar="TYPE=FILE|DIR",
        help="A type that travels encrypted, and the capability by which its keys are asked for; or a folder of"
        " such files, each called TYPE.cap. Repeatable. New ones count without a restart.",
    ),
]
BlanketFile = Annotated[
    Path | None,
    typer.Option(
        "--blanket",
        help="What its domain passes on to this broker (`cap issue` by the domain's key, `resource: *`,"
        " `action: *`): what the domain was or will be granted by `--sealed` serves the broker too.",
    ),
]
HomeUrl = Annotated[
    str,
    typer.Option(help="The server of its own domain, with PDPs and policies, if it is not the network's."),
]
HomeCredentials = Annotated[
    Path | None,
    typer.Option(help="The file of credentials for that server. Default: the same as for the network's."),
]
FunctionsModule = Annotated[
    str, typer.Option("--functions", metavar="MODULE", help="A Python module of functions for rules.")
]
FunctionSeconds = Annotated[float, typer.Option(min=0.001, help="How long one of them may take, in seconds.")]
FunctionMemory = Annotated[int, typer.Option(min=64, help="How much memory they may use, in MiB.")]
FunctionsUnconfined = Annotated[
    bool,
    typer.Option(
        "--functions-unconfined",
        help="Run them without being confined by the system. They can then do whatever this broker can.",
    ),
]
Disclosures = Annotated[
    bool, typer.Option(help="Put what is sent under rules into the audit stream, if there is one.")
]
KnownFile = Annotated[
    Path | None,
    typer.Option(
        help="The file that remembers which owners send heartbeats; who manages keys is remembered beside it."
        " Default: one below the state folder."
    ),
]
