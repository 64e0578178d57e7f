"""What is known of one permission that roles alone decide about: the algorithm of SAAM-RBAC.

After Wei, Crampton, Beznosov and Ripeanu, "Authorization Recycling in RBAC Systems" (SACMAT 2008). Some set
G of roles, unknown here, holds the permission; a request with active roles R, closed under juniors if there
is a hierarchy, is allowed exactly if R meets G. Invariants: every role in `minus` is outside G, and every
set in `plus` meets G. Hence R within `minus` is a deny, and a set A of `plus` with A - minus within R is an
allow. `plus` keeps the sets as they came: were roles taken out of them for good, a set would claim too much
once such a role is granted.
"""

from __future__ import annotations

from typing import NamedTuple

from sdp_cache.inference.clock_cache import PLACE_BYTES
from sdp_cache.inference.role_masks import Mask, bits

MAX_SETS = 256
"""Allowed role sets kept for one permission; the oldest make room."""
DENIED_BYTES, SET_BYTES = 128, 512
"""About what a refused role, and an allowed set with its clause in the index, take in memory."""


class Source(NamedTuple):
    """The answer something was learned from."""

    answer: str
    policies: tuple[str, ...] = ()


class Verdict(NamedTuple):
    """What follows for a request, and from which answers."""

    allowed: bool
    answers: tuple[str, ...]
    policies: tuple[str, ...] = ()


class Knowledge:
    """What is known of one permission, with an index.

    The index holds the clauses A - minus: those of a single role in `_single`, every other one under one of
    its roles, that which fewest stand under. So a clause within R is found by looking under the roles of R,
    not by trying all.
    """

    __slots__ = (
        "_denied",
        "_grouped",
        "_groups",
        "_minus",
        "_plus",
        "_single",
        "_sure",
        "confirmed",
        "epoch",
        "used",
    )

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        """The epoch under which all of this is true."""
        self.confirmed = epoch
        """The last epoch under which a PDP said that roles alone decide."""
        self.used = False
        self._minus: Mask = 0
        self._denied: dict[Mask, str] = {}
        self._plus: dict[Mask, Source] = {}
        self._index()

    @property
    def weight(self) -> int:
        """How many places this takes in a cache."""
        return 1 + (len(self._denied) * DENIED_BYTES + len(self._plus) * SET_BYTES) // PLACE_BYTES

    def decide(self, roles: Mask, complete: bool = True) -> Verdict | None:
        """The answer for these roles, if one follows; not `complete` if there are others, never met."""
        if complete and not roles & ~self._minus:
            return Verdict(False, self._refusals(roles))
        if known := roles & self._sure:
            return self._allowed_by(self._single[known & -known])
        for role in bits(roles & self._grouped):
            for clause, allowed in self._groups[role]:
                if not clause & ~roles:
                    return self._allowed_by(allowed)
        return None

    def deny(self, roles: Mask, answer: str) -> bool:
        """Learn that these roles were refused. False if that contradicts what was known."""
        new = roles & ~self._minus
        self._minus |= new
        self._denied.update((role, answer) for role in bits(new))
        return not any(new & allowed for allowed in self._plus) or self._index()

    def allow(self, roles: Mask, source: Source) -> bool:
        """Learn that these roles were let through. False if that contradicts what was known."""
        if roles in self._plus:
            return True
        if len(self._plus) >= MAX_SETS:
            self._plus = dict(list(self._plus.items())[MAX_SETS // 2 :])
            self._index()
        self._plus[roles] = source
        return self._insert(roles)

    def grant(self, roles: Mask) -> None:
        """These roles may hold the permission from now on."""
        self._minus &= ~roles
        for role in bits(roles):
            self._denied.pop(role, None)
        self._index()

    def revoke(self, role: Mask, affected: Mask, change: str) -> bool:
        """This role holds the permission no longer, and perhaps all those affected do not."""
        self._plus = {allowed: source for allowed, source in self._plus.items() if not allowed & affected}
        self._minus |= role
        self._denied.update((each, change) for each in bits(role))
        return self._index()

    def _index(self) -> bool:
        self._sure: Mask = 0
        self._single: dict[Mask, Mask] = {}
        self._grouped: Mask = 0
        self._groups: dict[Mask, list[tuple[Mask, Mask]]] = {}
        return all(map(self._insert, self._plus))

    def _insert(self, allowed: Mask) -> bool:
        clause = allowed & ~self._minus
        if not clause:
            return False
        if clause & (clause - 1) == 0:
            self._sure |= clause
            self._single.setdefault(clause, allowed)
        elif not clause & self._sure:
            role = min(bits(clause), key=lambda each: len(self._groups.get(each, ())))
            self._grouped |= role
            self._groups.setdefault(role, []).append((clause, allowed))
        return True

    def _allowed_by(self, allowed: Mask) -> Verdict:
        source = self._plus[allowed]
        return Verdict(True, (source.answer, *self._refusals(allowed & self._minus)), source.policies)

    def _refusals(self, roles: Mask) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._denied[role] for role in bits(roles)))
