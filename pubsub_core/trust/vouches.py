"""The vouches and withdrawals that a broker keeps, within bounds that nobody can use up for others.

Words count of whoever a chain of vouches leads to from the owner of a known type, from a root, or from whoever signed
what the broker was started with. Each of them has a quota, in which withdrawals come before vouches; and where all
together are too many, those nearest to an owner stay. So the word of whoever vouched for a broker outlasts anything
that the broker, or those it vouches for, can say. Of all others a few words are kept unread, in case they count later.
"""

from __future__ import annotations

import contextlib
import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping
from math import inf, isnan
from typing import NamedTuple, TypeAlias

import msgspec

from authz import Identity, PublicKey
from authz.crypto import Seal
from authz.errors import InvalidSignature
from pubsub_core.errors import WordTooLong

MAX_STEPS = 4
"""Maximum vouches in a chain."""
ALL = "*"
WITHDRAWN_SECONDS = 10 * 366 * 86_400.0
"""How long a withdrawal is remembered: longer than any vouch should be given for."""
AHEAD_SECONDS = 60.0
"""Maximum seconds that a signer's clock may be ahead; a vouch from later does not count yet."""
MAX_WORDS = 10_000
"""Maximum vouches and withdrawals kept."""
MAX_WORDS_EACH = 1_000
"""Maximum vouches and withdrawals kept per signer."""
MAX_WORD_BYTES = 8 * 1024
"""Maximum bytes of a vouch: it names some two hundred types."""
MAX_STRANGE = 1_024
"""Maximum unread vouches kept from signers to whom no chain leads."""


class Vouch(msgspec.Struct, frozen=True):
    """The signer trusts this broker with these types, by UUID or `*` for all it is trusted with, until this time."""

    broker: str
    types: tuple[str, ...]
    until: float
    made: float = 0.0
    withdrawn: bool = False
    """Then it takes back what the signer has said for this broker, about these types, up to when it was made."""
    heartbeats: bool = False
    """Then the signer promises to send heartbeats, as the owner of types: without them it is out of reach."""

    def counts(self, now: float) -> bool:
        """Whether it has not run out, and was made by now: one from the future could not be taken back before."""
        return self.until > now and (self.withdrawn or self.made <= now + AHEAD_SECONDS)

    def concerns(self, type_: str) -> bool:
        return ALL in self.types or type_ in self.types

    def takes_back(self, other: Vouch) -> bool:
        """Whether nothing is left of the other, which the same signer has said."""
        covered = ALL in self.types or set(other.types) <= set(self.types)
        return self.withdrawn and self.broker == other.broker and covered and self.made >= other.made


_VOUCH = Seal("broker vouch", Vouch)


def vouch(
    broker: PublicKey,
    types: Iterable[str],
    until: float,
    by: Identity,
    made: float = 0.0,
    *,
    heartbeats: bool = False,
) -> bytes:
    """A vouch of `by` for a broker; with `heartbeats`, a promise to send them too. Raises WordTooLong."""
    return _sign(Vouch(str(broker), tuple(types), until, made, heartbeats=heartbeats), by)


def withdraw(broker: PublicKey, types: Iterable[str], made: float, by: Identity) -> bytes:
    """A withdrawal of `by`'s vouch for a broker. Raises WordTooLong."""
    return _sign(Vouch(str(broker), tuple(types), made + WITHDRAWN_SECONDS, made, True), by)


def read_vouch(data: bytes) -> Vouch:
    """The content of a vouch or withdrawal, whoever signed it. Raises InvalidSignature."""
    return _VOUCH.read(data).value


def vouchers(words: Iterable[bytes], broker: PublicKey) -> frozenset[PublicKey]:
    """Those who vouch for a broker, by their words. Raises InvalidSignature."""
    read = [_VOUCH.read(each) for each in words]
    said = [each for each in read if each.value.broker == str(broker) and not each.value.withdrawn]
    return frozenset(each.signer for each in said)


def _sign(word: Vouch, by: Identity) -> bytes:
    data = _VOUCH.sign(word, by)
    if len(data) > MAX_WORD_BYTES:
        raise WordTooLong(len(word.types))
    return data


class _Word(NamedTuple):
    data: bytes
    signer: str
    said: Vouch

    @property
    def about(self) -> _About:
        return self.said.broker, frozenset(self.said.types), self.said.withdrawn

    @property
    def standing(self) -> tuple[bool, float, float]:
        """Of one signer, what stands higher stays."""
        return self.said.withdrawn, self.said.made, self.said.until


_About: TypeAlias = tuple[str, frozenset[str], bool]


class Words:
    """What was said about brokers, as far as it counts here."""

    def __init__(self, roots: Collection[str] = ()) -> None:
        self._roots = frozenset(roots)
        self._owners: frozenset[str] = frozenset()
        self._by: dict[str, dict[_About, _Word]] = {}
        self._known: dict[bytes, _Word] = {}
        self._pinned: dict[bytes, _Word] = {}
        self._strange: dict[bytes, _Word] = {}
        self._given: dict[str, dict[_About, _Word]] = {}
        """What the broker was started with, by signer, also once it has run out."""
        self._promised: tuple[int, frozenset[str]] = (-1, frozenset())
        self._steps: dict[str, int] = dict.fromkeys(self._roots, 0)
        """How far each signer that counts is from an owner."""
        self._news: set[bytes] = set()
        self._looked_at: object = None
        """What was known when chains were last looked for."""
        self._turn = 0
        self.version = 0
        """Another one whenever something else is known."""

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    @property
    def owners(self) -> frozenset[str]:
        """Whose types are known here."""
        return self._owners

    @owners.setter
    def owners(self, owners: frozenset[str]) -> None:
        if owners != self._owners:
            self._owners = owners
            self._measure()
            self._hear_strangers()

    def pin(self, data: bytes) -> None:
        """Keep for good a vouch that the broker was started with. Raises InvalidSignature."""
        word = _read(data)
        self._pinned[data] = word
        given = self._given.setdefault(word.signer, {})
        given[word.about] = max(word, given.get(word.about, word), key=lambda each: each.standing)
        self.version += 1
        self._keep(word)
        self._measure()
        self._hear_strangers()

    @property
    def pinned(self) -> tuple[bytes, ...]:
        """What the broker was started with, as far as it has not run out."""
        return tuple(self._pinned)

    def learn(self, words: Iterable[bytes]) -> bool:
        """Take in what was said; says whether any of it was new. Raises InvalidSignature at the first forged one."""
        before, reached = self.version, len(self._steps)
        claims = [_peek(data) for data in words if data not in self._known]
        try:
            self._take(claims)
        finally:
            if len(self._steps) != reached:
                self._hear_strangers()
            if len(self._known) > MAX_WORDS:
                self._make_room()
        return self.version != before

    def forget(self, now: float) -> None:
        """Forget expired vouches, and those of signers to whom no chain leads any more."""
        for word in [each for each in self._known.values() if not each.said.until > now]:
            self._drop(word)
        self._pinned = {data: each for data, each in self._pinned.items() if each.said.until > now}
        state = self.version, len(self._pinned), self._owners
        if state == self._looked_at:
            return
        self._looked_at = state
        self._measure()
        for word in [each for each in self._known.values() if self._rank(each) > MAX_STEPS]:
            self._drop(word)

    def trusted_by(self, signer: str, type_: str, now: float) -> set[str]:
        """The keys of brokers that a signer vouches for, as to a type."""
        said = [each.said for each in self._by.get(signer, {}).values()]
        said = [each for each in said if each.counts(now) and each.concerns(type_)]
        taken_back: dict[str, float] = {}
        for each in said:
            if each.withdrawn:
                taken_back[each.broker] = max(each.made, taken_back.get(each.broker, 0.0))
        return {
            each.broker
            for each in said
            if not each.withdrawn and each.made > taken_back.get(each.broker, -1.0)
        }

    def said_by(self, signer: str) -> list[Vouch]:
        """All that a signer has said, as far as it is kept."""
        return [each.said for each in self._by.get(signer, {}).values()]

    def vouch_for(self, signer: str, broker: str, type_: str, now: float) -> bytes:
        """The newest vouch of a signer for a broker, as to a type."""
        words = [each for each in self._by[signer].values() if each.said.broker == broker]
        words = [each for each in words if not each.said.withdrawn and each.said.counts(now)]
        words = [each for each in words if each.said.concerns(type_)]
        return max(words, key=lambda each: (each.said.made, each.said.until)).data

    @property
    def promised(self) -> frozenset[str]:
        """Who promises heartbeats in a vouch that was not taken back.

        In one that the broker was started with, also once it has run out: that is no reason to expect none.
        """
        if self._promised[0] != self.version:
            said = {by: {**self._given.get(by, {}), **self._by.get(by, {})} for by in self._given | self._by}
            promising = (by for by, mine in said.items() if any(each.heartbeats for each in _standing(mine)))
            self._promised = self.version, frozenset(promising)
        return self._promised[1]

    def next_end(self, now: float) -> float:
        """When the next vouch expires, or becomes valid."""
        known = [each.said for each in self._known.values() if each.said.until > now]
        ends = [each.until for each in known]
        return min(
            [*ends, *(each.made - AHEAD_SECONDS for each in known if not each.counts(now))], default=inf
        )

    def page(self, size: int) -> tuple[bytes, ...]:
        """At most `size` bytes of what is known, to be told to others: news first, and all the rest in turn."""
        if sum(map(len, self._known)) <= size:
            self._news.clear()
            return tuple(self._known)
        told = _fit((*self._pinned, *sorted(self._news, key=self._step)), size // 2)
        self._news.difference_update(told)
        known = list(self._known)
        turn = self._turn % len(known)
        rest = [each for each in known[turn:] + known[:turn] if each not in told]
        further = _fit(rest, size - sum(map(len, told)))
        self._turn = turn + max(len(further), 1)
        return (*told, *further)

    def _step(self, data: bytes) -> int:
        return self._rank(self._known[data])

    def _rank(self, word: _Word) -> int:
        """How many others are between an owner and whoever said this; more than MAX_STEPS if it does not count."""
        if word.data in self._pinned:
            return -1
        # A withdrawal outlasts the trust in whoever made it, or what it takes back would count when that returns.
        return self._steps.get(word.signer, MAX_STEPS + (not word.said.withdrawn))

    def _take(self, claims: list[_Word]) -> None:
        """Verify and keep the words of those who count, in whichever order they come."""
        reached = -1
        while reached != len(self._steps):
            reached, strange = len(self._steps), list[_Word]()
            for claim in claims:
                if claim.signer not in self._steps:
                    strange.append(claim)
                elif self._is_new(claim):
                    self._keep(_read(claim.data))
            claims = strange
        for claim in claims:
            self._strange[claim.data] = claim
        for data in list(self._strange)[: max(len(self._strange) - MAX_STRANGE, 0)]:
            del self._strange[data]

    def _hear_strangers(self) -> None:
        """Take in what was kept unread and counts now."""
        while ready := [each for each in self._strange.values() if each.signer in self._steps]:
            for claim in ready:
                del self._strange[claim.data]
                with contextlib.suppress(InvalidSignature):
                    if self._is_new(claim):
                        self._keep(_read(claim.data))

    def _is_new(self, claim: _Word) -> bool:
        mine = self._by.get(claim.signer, {})
        known = mine.get(claim.about)
        if known is not None:
            return claim.standing > known.standing
        return claim.said.withdrawn or len(mine) < MAX_WORDS_EACH

    def _keep(self, word: _Word) -> None:
        known = self._by.get(word.signer, {}).get(word.about)
        if known is not None:
            if known.standing >= word.standing:
                return
            self._drop(known)
        mine = self._by.setdefault(word.signer, {})
        mine[word.about] = word
        self._known[word.data] = word
        self._news.add(word.data)
        self.version += 1
        if not word.said.withdrawn:
            step = self._steps.get(word.signer, MAX_STEPS) + 1
            if step < min(MAX_STEPS, self._steps.get(word.said.broker, MAX_STEPS)):
                self._steps[word.said.broker] = step
        if len(mine) > MAX_WORDS_EACH:
            self._drop(min(mine.values(), key=lambda each: (each.data in self._pinned, each.standing)))

    def _drop(self, word: _Word) -> None:
        mine = self._by.get(word.signer, {})
        if mine.get(word.about) == word:
            del mine[word.about]
            if not mine:
                del self._by[word.signer]
        self._known.pop(word.data, None)
        self._news.discard(word.data)
        self.version += 1

    def _make_room(self) -> None:
        """Keep what is nearest to owners, and of those who are equally near the first words of each."""
        self._measure()
        ranked = []
        for mine in self._by.values():
            ordered = sorted(mine.values(), key=lambda each: each.standing, reverse=True)
            ranked += [(self._rank(each), place, each.data) for place, each in enumerate(ordered)]
        spare = len(self._known) - (MAX_WORDS - MAX_WORDS // 10)
        for rank, _, data in heapq.nlargest(spare, ranked):
            if rank >= 0:
                self._drop(self._known[data])

    def _measure(self) -> None:
        """Find out how far everybody is from an owner, by vouches that were not taken back."""
        first = self._owners | self._roots | {each.signer for each in self._pinned.values()}
        self._steps = dict.fromkeys(first, 0)
        reached: Collection[str] = first
        for step in range(1, MAX_STEPS):
            said = (each for by in reached for each in _standing(self._by.get(by, {})))
            reached = {each.broker for each in said} - self._steps.keys()
            self._steps.update(dict.fromkeys(reached, step))


def _standing(mine: Mapping[_About, _Word]) -> list[Vouch]:
    """The vouches of one signer of which anything is left."""
    taken_back: dict[str, list[Vouch]] = {}
    for each in mine.values():
        if each.said.withdrawn:
            taken_back.setdefault(each.said.broker, []).append(each.said)
    return [
        each.said
        for each in mine.values()
        if not each.said.withdrawn
        and not any(other.takes_back(each.said) for other in taken_back.get(each.said.broker, ()))
    ]


def _fit(words: Iterable[bytes], size: int) -> dict[bytes, None]:
    """The first words, up to `size` bytes."""
    fitting: dict[bytes, None] = {}
    for each in words:
        size -= len(each) if each not in fitting else 0
        if size < 0:
            break
        fitting[each] = None
    return fitting


def _peek(data: bytes) -> _Word:
    """A word as it claims to be. Raises InvalidSignature if it cannot be one."""
    claim = _VOUCH.peek(data) if len(data) <= MAX_WORD_BYTES else None
    if claim is None or isnan(claim.value.made) or isnan(claim.value.until):
        raise InvalidSignature
    return _Word(data, str(claim.signer), claim.value)


def _read(data: bytes) -> _Word:
    claim = _peek(data)
    _VOUCH.read(data)
    return claim
