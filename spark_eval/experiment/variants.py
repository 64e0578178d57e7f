"""The figures of the response-time experiments and what each of them compares, by the names that traces give them."""

from __future__ import annotations

SUBSCRIPTIONS, UNSUBSCRIBING, RECYCLING, PDPS = "subscriptions", "unsubscribing", "recycling", "pdps"
"""The paper's figures 5 (a) to (d)."""
TRANSPORT = "transport"
"""What the paper left for later: other ways between PEP and PDP."""
FIGURES = (SUBSCRIPTIONS, UNSUBSCRIBING, RECYCLING, PDPS, TRANSPORT)

CONTENT = "content-based"
"""Said of what goes through an event service that matches filters, in a process of its own."""
ONE_INBOX, UNSUBSCRIBES, KEEPS = "one inbox for all", "unsubscribes from each", "never unsubscribes"
NOTHING, PRECISE, SAAM, CERTIFICATES = "no recycling", "precise", "SAAM-RBAC", "certificates"
HEDGED = "hedged"

DIRECT = "direct TCP"
OVER_NATS = "over NATS"
BARE = "over NATS, bare PEP"
"""A PEP that does nothing but ask and wait: to compare with one that is answered over TCP."""
DIRECT_REPLY = "over NATS, reply by direct TCP"
SECURED = "over NATS, secured"
DIRECT_FAR = "direct TCP, another host"
FAR = "over NATS, another host"
SPREAD = "over NATS, a PDP on each other host"
"""All asked at once."""


def objects(count: int, kind: str = "") -> str:
    """A PDP that subscribes to this many objects."""
    return f"{count:,} objects" + (f", {kind}" if kind else "")


def pdps(count: int, kind: str = "") -> str:
    """This many PDPs."""
    return f"{count} PDP{'s' * (count != 1)}" + (f", {kind}" if kind else "")
