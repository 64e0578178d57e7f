"""`authfabric ask`: one question, from the terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator
from typing import Annotated

import msgspec
import typer

from authfabric.files import CONNECT_SECONDS, find_trust, find_url
from authfabric.terminal import Exit, Json, Url, fail, print_json, printable, run, say
from authz import AuthFabricError, Decision, Entity, InvalidRequest, Reason, Request
from authz.errors import InvalidKey
from authz.explanation import Explanation
from authz.request import Attributes
from bus.errors import NotConnected
from bus.nats import connect
from bus.wire import DEFAULT_DOMAIN
from pep import UNVERIFIED, Enforcer, NobodyTrusted, Strategy
from pep.asking import check_encodable
from pep.errors import ExplanationRefused
from pep.trust import Trust

TrustedKeys = Annotated[
    list[str] | None,
    typer.Option(
        "--trust",
        metavar="KEY|FILE",
        help="A public key, or a file of them: only PDPs that it empowered are believed. Default: AUTHFABRIC_TRUST,"
        " the key of the `up` that runs here, or those in your credentials.",
    ),
]
Insecure = Annotated[bool, typer.Option("--insecure", help="Believe whoever answers, whatever is trusted.")]


def ask(
    subject: Annotated[str, typer.Argument(help="Who wants it.")],
    object: Annotated[str, typer.Argument(help="What it is wanted of, such as /sales/q1.")],
    action: Annotated[str, typer.Argument(help="What is wanted, such as read.")],
    subject_attributes: Annotated[
        list[str] | None,
        typer.Option("--subject", "-s", metavar="NAME=VALUE", help="An attribute of the subject."),
    ] = None,
    object_attributes: Annotated[
        list[str] | None,
        typer.Option("--object", "-o", metavar="NAME=VALUE", help="An attribute of the object."),
    ] = None,
    context: Annotated[
        list[str] | None, typer.Option("--context", "-c", metavar="NAME=VALUE", help="A fact of the context.")
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show which policies were looked at, and why.")
    ] = False,
    domain: Annotated[str, typer.Option(help="The domain the object belongs to.")] = DEFAULT_DOMAIN,
    deadline: Annotated[float, typer.Option(min=0.001, help="Seconds to wait for an answer.")] = 1.0,
    strategy: Annotated[Strategy, typer.Option(help="Whom to ask.")] = Strategy.HEDGE,
    trust: TrustedKeys = None,
    insecure: Insecure = False,
    url: Url = None,
    json: Json = False,
) -> None:
    """Ask whether SUBJECT may do ACTION to OBJECT.

    Exit code 0: allowed. 1: denied by policy. 2: this cannot be asked. 3: the fabric could not decide, which also
    means no.
    Attribute values are read as JSON where they are JSON, and as text otherwise.
    """
    try:
        request = Request.of(
            Entity(subject, read_attributes(subject_attributes)),
            Entity(object, read_attributes(object_attributes)),
            action,
            read_attributes(context),
        )
        check_encodable(request)
    except InvalidRequest as error:
        fail(error, Exit.USAGE)
    where = find_url(url)
    keys = believed(trust, insecure, where)
    run(_ask(request, explain, domain, deadline, strategy, where, keys, json), brief=True)


def believed(trust: list[str] | None, insecure: bool, url: str) -> Trust:
    """Whom a command believes at a server; None if nothing says."""
    try:
        return UNVERIFIED if insecure else find_trust(trust, url)
    except InvalidKey as error:
        fail(error, Exit.USAGE)
    except NobodyTrusted:
        return None


@contextlib.asynccontextmanager
async def asking(
    url: str, trust: Trust, domain: str, name: str, deadline: float = 1.0, strategy: Strategy = Strategy.HEDGE
) -> AsyncIterator[Enforcer]:
    """What a command asks by. Ends the command if nothing says whom to believe, and there is a server."""
    if trust is None:
        async with connect(
            url, name=name, connect_seconds=CONNECT_SECONDS, admission_seconds=CONNECT_SECONDS
        ):
            fail(NobodyTrusted(url), Exit.USAGE)
    async with Enforcer.connect(
        url,
        trust=trust,
        domain=domain,
        deadline=deadline,
        strategy=strategy,
        name=name,
        connect_seconds=CONNECT_SECONDS,
        recycling=None,
    ) as pep:
        yield pep


async def _ask(
    request: Request,
    explain: bool,
    domain: str,
    deadline: float,
    strategy: Strategy,
    url: str,
    trust: Trust,
    json: bool,
) -> None:
    explanation = None
    try:
        async with asking(url, trust, domain, "ask", deadline, strategy) as pep:
            decision = await pep.check(request)
            explanation = await _explain(pep, request, deadline) if explain else None
    except NotConnected as error:
        if not json:
            raise
        decision = Decision(False, Reason.NOT_CONNECTED, detail=str(error))
    if json:
        document = decision_document(request, decision)
        print_json(document | {"explanation": _explanation_document(explanation)} if explain else document)
    else:
        _show(request, decision)
        if explanation is not None:
            _show_explanation(explanation)
    if not decision.allowed:
        raise typer.Exit(Exit.DENIED if decision.decided else Exit.FAILED)


async def _explain(pep: Enforcer, request: Request, deadline: float) -> Explanation | None:
    """Why, in a replica's words; None, with a word on it, if none can say."""
    try:
        return await pep.explain(request, deadline=deadline)
    except ExplanationRefused as error:
        problem = error.problem
    except AuthFabricError as error:
        problem = str(error)
    say(f"no explanation: {printable(problem)}", to=sys.stderr)
    return None


def _show_explanation(explanation: Explanation) -> None:
    for policy in explanation.policies:
        mark = "[bold]→[/]" if policy.determines else "[dim]·[/]"
        about = f"  [dim]{printable(policy.description)}[/]" if policy.description else ""
        say(f"  {mark} {policy.effect} [bold]{printable(policy.policy)}[/] {policy.state}{about}")
        for detail in policy.details():
            say(f"      {printable(detail)}")
    if explanation.others:
        say(f"  [dim]{explanation.others} more policies are about other subjects, objects or actions[/]")


def _explanation_document(explanation: Explanation | None) -> dict[str, object] | None:
    """What an explanation adds to the request and the decision that stand beside it."""
    if explanation is None:
        return None
    return {"policies": explanation.policies, "others": explanation.others}


def decision_document(request: Request, decision: Decision) -> dict[str, object]:
    """A decision with field names, for programs."""
    return {
        "subject": request.subject.id,
        "object": request.object.id,
        "action": request.action.id,
        "decision": decision.effect,
        "reason": decision.reason,
        "policies": decision.policies,
        "detail": decision.detail,
        "epoch": decision.epoch,
        "expires": decision.expires,
        "obligations": decision.obligations,
    }


def _show(request: Request, decision: Decision) -> None:
    colour = "green" if decision.allowed else "red"
    say(f"[bold {colour}]{decision.effect}[/]  {printable(str(request))}  [dim]{printable(why(decision))}[/]")


def why(decision: Decision) -> str:
    """What a decision rests on, in a few words."""
    return decision.detail or (
        "by " + ", ".join(decision.policies) if decision.policies else str(decision.reason)
    )


def read_attributes(pairs: list[str] | None) -> Attributes:
    """Attributes given as NAME=VALUE. Raises InvalidRequest."""
    attributes: Attributes = {}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise InvalidRequest(pair, "is not NAME=VALUE")
        try:
            attributes[name] = msgspec.json.decode(value)
        except msgspec.DecodeError:
            attributes[name] = value
    return attributes
