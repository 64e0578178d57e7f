"""What is wrong with a fabric, by one look at it, and what to do about each thing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from authfabric.overview.fabric_view import FabricView, MemberView, State

CLOCK_SECONDS = 5.0
"""Offset from which a clock counts as wrong: leases are bounded by such a time."""
LAGGING = 10_000
"""Messages that a consumer has not read yet, from which it counts as lagging."""
NONE_HEARD = "none was heard"


class Finding(msgspec.Struct, frozen=True):
    """One thing looked at: how it is, and what to do if it is not well."""

    about: str
    well: bool
    found: str
    do: str = ""


def diagnose(view: FabricView) -> list[Finding]:
    """How the members, their clocks, rights, trust and versions are, and the streams and those who read them."""
    return [
        _members(view),
        *_trust(view),
        *_rights(view.members),
        *_clocks(view.members),
        *_versions(view.members),
        *_quorum(view),
        *_lag(view),
    ]


def _members(view: FabricView) -> Finding:
    at: dict[str, list[str]] = {}
    for each in view.members:
        held = f"release {each.number} ({each.hash[:12]})" if each.hash else "no release"
        at.setdefault(held, []).append(each.name)
    found = "; ".join(f"{held}: {', '.join(names)}" for held, names in at.items()) or NONE_HEARD
    silent = [
        f"{each.name}: silent for {each.heard:.0f} s" for each in view.members if each.state is State.SILENT
    ]
    problems = [f"{each.name}: {each.problem}" for each in view.members if each.problem]
    well = len(at) < 2 and "no release" not in at and not problems and not silent
    return Finding("members", well, "; ".join([found, *silent, *problems]), "" if well else _advice(view))


def _advice(view: FabricView) -> str:
    states = {each.state for each in view.members}
    if view.in_force is None and not view.problem:
        return "nothing was released yet: authfabric policy push DIR"
    if State.SILENT in states:
        return "see whether the silent ones still run, and reach a server: they decide nothing once their lease ends"
    if State.BLOCKED in states:
        return "what each says is in its way comes first"
    return "look again in a few seconds, after a push; then see the logs of those behind"


def _trust(view: FabricView) -> Iterator[Finding]:
    """Members that would refuse what is in force, since they do not trust who signed it."""
    if view.in_force is None:
        return
    signer = view.in_force.signer
    deaf = [each.name for each in view.members if each.trust and signer not in each.trust]
    if deaf:
        found = f"{', '.join(deaf)} do not trust `{signer}`, who signed what is in force"
        yield Finding(
            "trust of members", False, found, "if that key may release, start them with it in --trust"
        )


def _rights(members: Sequence[MemberView]) -> Iterator[Finding]:
    lacking = [f"{each.name} lacks the right `{right}`" for each in members for right in each.lacks]
    if lacking:
        grant = "authfabric domain grant FOLDER NAME with that right, and give the member the new credentials"
        yield Finding("rights of members", False, "; ".join(lacking), grant)


def _clocks(members: Sequence[MemberView]) -> Iterator[Finding]:
    known = {each.name: each.clock for each in members if each.clock is not None}
    wrong = {name: ahead for name, ahead in known.items() if abs(ahead) > CLOCK_SECONDS}
    if not wrong:
        return
    if len(wrong) == len(known) > 1 and max(wrong.values()) - min(wrong.values()) < CLOCK_SECONDS:
        found = (
            f"this machine's clock is {_off(-next(iter(wrong.values())))} those of all {len(known)} members"
        )
    else:
        found = "; ".join(f"the clock of {name} is {_off(ahead)} this one" for name, ahead in wrong.items())
    yield Finding("clocks of members", False, found, "set the clocks of all machines by NTP")


def _off(ahead: float) -> str:
    return f"{abs(ahead):,.0f} s {'ahead of' if ahead > 0 else 'behind'}"


def _versions(members: Sequence[MemberView]) -> Iterator[Finding]:
    versions = Counter(each.version for each in members if each.version)
    if len(versions) > 1:
        found = "; ".join(
            f"{version}: {', '.join(each.name for each in members if each.version == version)}"
            for version in sorted(versions)
        )
        yield Finding(
            "versions", False, found, "finish the upgrade: members first, then whoever pushes policies"
        )


def _quorum(view: FabricView) -> Iterator[Finding]:
    seen = [each for each in view.streams if not each.hidden]
    lost = [f"{each.name}: {each.problem or 'no quorum'}" for each in seen if not each.quorum]
    away = [f"{each.name} is behind or away" for each in view.nodes if each.behind]
    if lost:
        do = (
            "start the servers that are away: nothing is stored without a majority. Delete no store meanwhile"
        )
        yield Finding("quorum", False, "; ".join([*lost, *away]), do)
    elif away:
        do = "start it again, or wait until it has caught up: one more lost server may end the majority"
        yield Finding("NATS nodes", False, "; ".join(away), do)
    elif seen:
        nodes = f", on {', '.join(each.name for each in view.nodes)}" if view.nodes else ""
        yield Finding("streams", True, f"{len(seen)} have a leader and a majority{nodes}")


def _lag(view: FabricView) -> Iterator[Finding]:
    behind = [f"{name}: {waiting:,} to read" for name, waiting in view.reading if waiting >= LAGGING]
    if behind:
        do = "see the brokers' load and logs; start more brokers, or fewer subscribers on one"
        yield Finding("consumers of events", False, "; ".join(behind), do)
