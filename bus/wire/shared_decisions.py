"""Cooperative caching: signed decisions that PDPs publish, so that caches learn from answers given to others."""

from __future__ import annotations

import msgspec

from authz import Decision, Request
from authz.authority import Statement
from bus.wire.envelope import Unpack

WISH_SECONDS = 2.0
"""How often a cache repeats its wish."""
WISH_TTL = 7.0
"""How long a wish is remembered."""
MAX_WISHES = 1024
"""Maximum different wishes remembered in a domain."""


class SharedDecision(msgspec.Struct, frozen=True, array_like=True):
    """A decision, and the proof that it is number `index` of a statement."""

    request: Request
    decision: Decision
    index: int
    proof: tuple[bytes, ...]


class SharedDecisions(msgspec.Struct, frozen=True, array_like=True):
    """Some of what was decided under one signature."""

    statement: Statement
    decisions: list[SharedDecision]


class TopicRequest(msgspec.Struct, frozen=True, array_like=True):
    """The topics, in text form, on which some cache wants to hear decisions. It does not say which cache."""

    topics: list[str]


unpack_shared_decisions = Unpack(SharedDecisions)
unpack_topic_request = Unpack(TopicRequest)
