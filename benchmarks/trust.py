"""What trust costs: reducing a chain of certificates, the first time and again."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from authz import Identity
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
from benchmarks.harness import best_of_each, main

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


def run() -> dict[str, float]:
    """What trust costs: reducing a chain of certificates, the first time and again."""
    return reduction()


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
