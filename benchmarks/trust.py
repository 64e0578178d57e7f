"""What trust costs: reducing a chain of certificates, authenticating answers, and signing decisions."""

from __future__ import annotations

import functools
import secrets
import statistics
from collections.abc import Awaitable, Callable
from itertools import pairwise

import uvloop

from authz import Decision, Identity, Request
from authz.authority import Statement, decision_hash
from authz.spki import (
    Capability,
    Kind,
    Owners,
    Resource,
    Validity,
    Verifier,
    encode_chain,
    parse_authority,
)
from authz.spki.capability import DOMAIN
from benchmarks.bus import OBJECTS, checked, medians, rate, replicas
from benchmarks.harness import at_least, at_most, best, best_of_each, main
from benchmarks.measures.admission import admission
from bus.server import NatsServer
from pep import UNVERIFIED, Enforcer

PROMISES = {"auth_rtt_ratio": at_most(1.1), "auth_throughput_ratio": at_least(0.85)}

NOW = 1_800_000_000
TIMES = {"reduce_us": 2, "reduce_cached_us": 300, "four_signatures_us": 2}
"""A round is short, so that some rounds are left alone by the rest of the machine."""
ROUNDS = 100

GRANTS = (
    "type: uk.gov.pito.*\naction: *",
    "type: uk.gov.pito.*\naction: publish|subscribe\nwhen: 06:00-22:00 Europe/London",
    "type: uk.gov.pito.Numberplate\naction: publish\nattributes: location, numberplate, timestamp",
    'type: uk.gov.pito.Numberplate\naction: publish\nattributes: location = "Victoria", numberplate\nrate: 9 per hour',
)
"""From the owner of a type over a country, a city and a borough to one camera."""


TURNS = 15
SIGNED = 1024


def run() -> dict[str, float]:
    """What trust costs: reducing a chain of certificates, authenticating answers, signing decisions, admission."""
    return reduction() | signing() | uvloop.run(authentication()) | uvloop.run(admission())


async def authentication() -> dict[str, float]:
    """Asking the same replica with and without authentication, question by question in turn.

    What authentication adds is some percent of a round trip, less than a round trip varies from one second to the
    next: so a slow moment must strike both alike, and what is compared stands side by side.
    """
    seed = secrets.token_bytes(32)
    times: dict[str, list[float]] = {"plain": [], "authenticated": []}
    rates: dict[str, list[float]] = {"plain": [], "authenticated": []}
    connect = functools.partial(Enforcer.connect, deadline=10.0, recycling=None)
    async with (
        NatsServer() as server,
        replicas(server.url, 1, "domain:default", root=seed),
        connect(server.url, trust=UNVERIFIED) as plain,
        connect(server.url, trust=[Identity.from_seed(seed).public]) as authenticated,
    ):
        peps = {"plain": plain, "authenticated": authenticated}
        for pep in peps.values():
            await throughput(pep)
        for turn in range(TURNS):
            asked = [functools.partial(checked, pep, 0) for pep in peps.values()]
            for name, each in zip(peps, await medians(asked, 300), strict=True):
                times[name].append(each)
            for name in list(peps)[:: 1 if turn % 2 else -1]:
                rates[name].append(await throughput(peps[name]))
    return {
        "auth_rtt_ratio": paired(times),
        "auth_throughput_ratio": paired(rates),
        "auth_rtt_us": min(times["authenticated"]) * 1e6,
        "auth_per_s": max(rates["authenticated"]),
    }


def paired(rounds: dict[str, list[float]]) -> float:
    """The median of the ratios within a round: what was measured side by side is compared, and nothing else."""
    pairs = zip(rounds["authenticated"], rounds["plain"], strict=True)
    return statistics.median(authenticated / plain for authenticated, plain in pairs)


async def throughput(pep: Enforcer) -> float:
    """Decisions per second, with 256 questions in flight."""

    def ask(number: int) -> Awaitable[Decision]:
        return pep.check("alice", OBJECTS[number % len(OBJECTS)], "read")

    return await rate(ask, 20_000, right=lambda decision: decision.allowed)


def signing() -> dict[str, float]:
    """Microseconds a decision to sign many at once, and to sign one alone."""
    identity, decision = Identity.generate(), Decision(True, policies=("alice-reads",), epoch=7)
    requests = [Request.of("alice", f"/sales/{n}", "read") for n in range(SIGNED)]

    def sign(several: list[Request]) -> None:
        leaves = [decision_hash(request, decision) for request in several]
        Statement.sign(identity, "default", NOW, leaves)

    return {
        "sign_us": best(lambda: sign(requests)) / SIGNED * 1e6,
        "sign_alone_us": best(lambda: sign(requests[:1])) * 1e6,
    }


def reduction() -> dict[str, float]:
    """Microseconds to verify a chain of four links as it comes over the wire; four signatures are most of it."""
    keys = [Identity.generate() for _ in range(len(GRANTS) + 1)]
    links = [
        Capability(issuer.public, subject.public, True, parse_authority(text), Validity(0, NOW + 1)).sign(
            issuer
        )
        for (issuer, subject), text in zip(pairwise(keys), GRANTS, strict=True)
    ]
    chain = encode_chain(links)
    owners = Owners([(Resource(Kind.TYPE, "uk.gov.pito.*"), keys[0].public)])
    remembering = Verifier(owners)

    def signatures() -> None:
        for link in links:
            link.issuer.verify(link.signature, DOMAIN + link.body)

    works: dict[str, Callable[[], object]] = {
        "reduce_us": lambda: Verifier(owners, size=1).verify(chain, NOW),
        "reduce_cached_us": lambda: remembering.verify(chain, NOW),
        "four_signatures_us": signatures,
    }

    def repeat(name: str) -> Callable[[], None]:
        def work() -> None:
            for _ in range(TIMES[name]):
                works[name]()

        return work

    seconds = best_of_each({name: repeat(name) for name in works}, ROUNDS)
    return {name: each / TIMES[name] * 1e6 for name, each in seconds.items()}


if __name__ == "__main__":
    main(run)
