"""Which answers count: those of a decider that was introduced, made for this very question and nobody else.

Whatever else arrives is counted, reported now and then, and otherwise as if it had not arrived: the question stays
open, and the true answer is taken when it comes.
"""

from __future__ import annotations

import contextlib
import enum
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from time import monotonic, time
from typing import TYPE_CHECKING, TypeAlias

from cachetools import LRUCache

from authz import AuthFabricError, Decision, PublicKey, Request
from authz.authority import MAX_DECIDERS, Decider, Deciders, Introduction
from authz.errors import InvalidSignature
from authz.spki import Notice
from authz.spki.errors import RevocationUnknown
from bus.wire import MAX_BYTES, Announcement, Kind, Scope, parse_scopes, unwrap
from pep.trust.clock_skew import SKEW_SECONDS, Clocks

if TYPE_CHECKING:
    from pep.trust.revocation_watch import RevocationWatch

UNCHECKED_SECONDS = 3.0
"""How long it may take to read what was revoked before it is said that it is not known."""
ALARM_SECONDS = 10.0
"""How long after a line in the log about refused answers there is none."""
ASK_SECONDS = 0.05
"""How long after asking who is there it is not asked again."""

MAX_VERIFIED = MAX_BYTES
"""Maximum scopes of announcements that are remembered as verified: more than any one announcement can have."""

_Verified: TypeAlias = tuple[Announcement, list[Scope]]
_log = logging.getLogger("authfabric.pep")


class Refusal(enum.StrEnum):
    """Why something that came as an answer does not count."""

    UNAUTHENTICATED = "unauthenticated"
    """It does not even claim to be anybody's."""
    UNKNOWN = "unknown"
    """It is of someone who has not been introduced, or whose authority has ended."""
    UNCHECKED = "unchecked"
    """It is of someone whose right cannot be checked: what was revoked is not known."""
    FORGED = "forged"
    """It was not made for this question and this asker by whom it names: forged, replayed or meant for another."""
    OUTSIDE = "outside"
    """It is authentic, but its decider may not decide that."""


class Authenticity:
    """Opens what arrives as answers to one PEP."""

    def __init__(self, roots: Iterable[PublicKey], ask_who: Callable[[], None]) -> None:
        """`ask_who` has the replicas introduce themselves."""
        trusted = tuple(roots)
        self.deciders = Deciders(trusted, follow=self._follow)
        self._at_their_time = Deciders(trusted)
        """Who would be believed if its own clock were right: this tells a wrong clock from a wrong key, and no more."""
        self.clocks = Clocks()
        self.watch: RevocationWatch | None = None
        """What knows what was revoked; without it nobody is introduced."""
        self.ask_who = ask_who
        self.on_revoked: list[Callable[[], None]] = []
        """Called when something was revoked."""
        self.refused: Counter[Refusal] = Counter()
        self.refused_introductions = 0
        self.refused_announcements = 0
        """How many announcements were not by whom they introduced, or too old."""
        self._announced: LRUCache[tuple[bytes, bytes], _Verified] = LRUCache(MAX_VERIFIED, _size)
        self._unchecked: LRUCache[bytes, float] = LRUCache(MAX_DECIDERS)
        """Who cannot be believed before it is known what was revoked, and since when."""
        self._asked_at = self._said_at = float("-inf")

    @property
    def asker(self) -> bytes:
        """The key that goes with every question."""
        return self.deciders.asker

    def open(self, subject: str, question: bytes, payload: bytes) -> tuple[bytes, Decider] | None:
        """The answer to a question that was asked on a subject, and whose it is; None if it does not count."""
        parts = unwrap(payload)
        if parts is None:
            self.refuse(Refusal.UNAUTHENTICATED)
            return None
        sender, tag, answer = parts
        decider = self.deciders.get(sender, time())
        if decider is None:
            if self._is_being_checked(sender):
                self.refused[Refusal.UNCHECKED] += 1
            else:
                self.refuse(Refusal.UNCHECKED if sender in self._unchecked else Refusal.UNKNOWN)
            self._find_out()
            return None
        if not decider.mac.holds(tag, subject, question, answer):
            self.refuse(Refusal.FORGED)
            return None
        return answer, decider

    def permitted(
        self, decider: Decider, requests: Sequence[Request], decisions: Sequence[Decision | None]
    ) -> list[Decision | None]:
        """The decisions that their decider may make, and None for the others."""
        at = time()
        may = [decider.may_decide(request, at) for request in requests]
        if not all(may):
            self.refuse(Refusal.OUTSIDE)
        return [decision if each else None for decision, each in zip(decisions, may, strict=True)]

    def introduce(self, introduction: bytes) -> Decider | None:
        """Get to know a decider, if a root that is trusted here empowered it."""
        try:
            decider = self.deciders.introduce(introduction, time())
            self._unchecked.pop(decider.key.raw, None)
            return decider
        except RevocationUnknown as error:
            key = Introduction.read(introduction).key
            self._unchecked.setdefault(key, monotonic())
            if not self._is_being_checked(key):
                self._say(f"a PDP is not believed: {error}")
            return None
        except AuthFabricError as error:
            self.refused_introductions += 1
            _log.debug("an introduction is refused: %s", error)
            return None

    def announced(self, announcement: Announcement) -> tuple[bytes, list[Scope]] | None:
        """Who announces, and of the scopes those that it may decide; None if it is no decider, or not of now."""
        now = time()
        decider = self.introduce(announcement.introduction)
        if decider is None:
            self._suspect_clock(announcement, now)
            return None
        key = decider.key.raw
        known = self._announced.get((key, announcement.signature))
        if known is None or known[0] != announcement:
            try:
                decider.key.verify(announcement.signature, announcement.signed())
            except InvalidSignature:
                self.refused_announcements += 1
                return None
            known = announcement, _served(decider, announcement.scopes)
            self._announced[key, announcement.signature] = known
        self.clocks.hear(decider.key, announcement.at, now)
        if abs(now - announcement.at) > SKEW_SECONDS:
            self.refused_announcements += 1
            return None
        return key, known[1]

    def _suspect_clock(self, announcement: Announcement, now: float) -> None:
        """Find out whether somebody is not believed since its clock, or this one, is wrong."""
        if abs(now - announcement.at) <= SKEW_SECONDS:
            return
        with contextlib.suppress(AuthFabricError):
            key = self._at_their_time.introduce(announcement.introduction, announcement.at).key
            key.verify(announcement.signature, announcement.signed())
            self.clocks.hear(key, announcement.at, now)

    @property
    def unread(self) -> list[str]:
        """Why it is not known what was revoked; nothing if it is known."""
        return [] if self.watch is None else self.watch.unread

    def _follow(self, issuer: PublicKey, by: PublicKey) -> bool:
        return self.watch is not None and self.watch.follow(issuer, by)

    def revoke(self, notice: Notice) -> None:
        """Heed a revocation. Raises InvalidSignature if it is forged."""
        self.deciders.accept(notice, time())
        for each in self.on_revoked:
            each()

    def refuse(self, refusal: Refusal) -> None:
        """Count an answer that does not count, and say so now and then."""
        self.refused[refusal] += 1
        self._say(f"answers are refused: {self} so far")

    def _is_being_checked(self, key: bytes) -> bool:
        """Whether it was only just begun to read what was revoked: nothing is wrong then."""
        since = self._unchecked.get(key)
        return since is not None and monotonic() < since + UNCHECKED_SECONDS

    def _say(self, problem: str) -> None:
        now = monotonic()
        if now >= self._said_at + ALARM_SECONDS:
            self._said_at = now
            _log.warning("%s", problem)

    def _find_out(self) -> None:
        now = monotonic()
        if now >= self._asked_at + ASK_SECONDS:
            self._asked_at = now
            self.ask_who()

    def __str__(self) -> str:
        return ", ".join(f"{count} {refusal}" for refusal, count in self.refused.items()) or "none"


def _size(verified: _Verified) -> int:
    """How much room a verified announcement takes."""
    return 1 + len(verified[0].scopes)


def _served(decider: Decider, texts: Iterable[str]) -> list[Scope]:
    """Those of the scopes in which the decider may decide everything."""
    return [scope for scope in parse_scopes(texts) if decider.may_decide_under(_objects(scope))]


def _objects(scope: Scope) -> str:
    """The objects that lie in a scope, as a capability names them."""
    if scope.kind in (Kind.BROADCAST, Kind.DOMAIN):
        return "*"
    return f"{scope.object.rstrip('/')}/*" if scope.kind is Kind.PREFIX else scope.object
