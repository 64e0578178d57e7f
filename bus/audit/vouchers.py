"""Whether PDPs really said what others recorded: recorded decisions against the statements that PDPs signed.

A PEP records what was decided; a PDP records the hashes of what it decided, under its signature. Invariant: a
decision counts as vouched for only if a key that a trusted root had empowered to decide about its object
signed that very request with that very decision. Where a record is masked, its writer says which hash that has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from authz import AuthFabricError, PublicKey, Request
from authz.authority import Decider, Deciders, decision_hash
from authz.crypto import Tree
from authz.errors import InvalidSignature
from bus.audit.records import AuditRecord, Vouched

SIGNING_SECONDS = 5.0
"""Time within which a PDP that runs has signed what it decided, and stored that."""


@dataclass(frozen=True, slots=True)
class _Recorded:
    writer: str
    sequence: int
    request: Request
    at: float


class Vouchers:
    """Fed record after record, from all writers and in any order."""

    def __init__(self, roots: Iterable[PublicKey]) -> None:
        self._roots = frozenset(roots)
        self._deciders: dict[bytes, Decider | None] = {}
        self._signed: dict[bytes, tuple[Decider, ...]] = {}
        self._open: defaultdict[bytes, list[_Recorded]] = defaultdict(list)
        self.vouched = 0
        """How many decisions that a PDP is said to have made it has signed."""
        self.masked = 0
        """How many of those said to be a PDP's hide something: which hash is theirs, their writers say."""
        self.refused = 0
        """How many statements do not hold, or are by nobody who may decide."""
        self.stated: dict[str, float] = {}
        """When each writer of statements has recorded its last."""

    def take(self, record: AuditRecord) -> None:
        request, decision = record.request, record.decision
        if record.vouched is not None:
            self.stated[record.writer] = max(record.at, self.stated.get(record.writer, 0.0))
            self._hear(record.vouched)
        # What was inferred, or denied because nobody answered, no PDP has said.
        elif request is not None and decision is not None and decision.decided and decision.inferred is None:
            recorded = _Recorded(record.writer, record.sequence, request, record.at)
            self.masked += bool(record.masked)
            self._match(record.masked or decision_hash(request, decision), recorded)

    @property
    def missing(self) -> dict[str, list[int]]:
        """The numbers of the decisions that nobody vouches for, by writer."""
        found: defaultdict[str, list[int]] = defaultdict(list)
        for several in self._open.values():
            for each in several:
                found[each.writer].append(each.sequence)
        return {writer: sorted(numbers) for writer, numbers in sorted(found.items())}

    def unconfirmed(self, ended: Collection[str]) -> dict[str, list[int]]:
        """Those of the missing that a PDP may have made which has crashed, or has not signed yet.

        `ended` are the writers that have closed their chains. Another PDP signs within a moment, so these were given
        after its last statement, or little before.
        """
        lasts = [at for writer, at in self.stated.items() if writer not in ended]
        found: defaultdict[str, list[int]] = defaultdict(list)
        for several in self._open.values():
            for each in several:
                if any(abs(each.at - last) <= SIGNING_SECONDS for last in lasts):
                    found[each.writer].append(each.sequence)
        return {writer: sorted(numbers) for writer, numbers in sorted(found.items())}

    def _hear(self, vouched: Vouched) -> None:
        decider = self._verify(vouched)
        if decider is None:
            self.refused += 1
            return
        for leaf in vouched.leaves:
            known = self._signed.get(leaf, ())
            self._signed[leaf] = known if decider in known else (*known, decider)
            for recorded in self._open.pop(leaf, ()):
                self._match(leaf, recorded)

    def _match(self, leaf: bytes, recorded: _Recorded) -> None:
        signers = self._signed.get(leaf, ())
        if any(decider.may_decide(recorded.request, recorded.at) for decider in signers):
            self.vouched += 1
        else:
            self._open[leaf].append(recorded)

    def _verify(self, vouched: Vouched) -> Decider | None:
        statement = vouched.statement
        decider = self._introduced(vouched.introduction, statement.at)
        if decider is None or decider.key.raw != statement.signer:
            return None
        if (Tree(vouched.leaves).root, len(vouched.leaves)) != (statement.root, statement.count):
            return None
        try:
            statement.verify()
        except InvalidSignature:
            return None
        return decider

    def _introduced(self, introduction: bytes, at: float) -> Decider | None:
        """Whom an introduction was good for, at that time."""
        if introduction not in self._deciders:
            try:
                self._deciders[introduction] = Deciders(self._roots).introduce(introduction, at)
            except AuthFabricError:
                self._deciders[introduction] = None
        return self._deciders[introduction]
