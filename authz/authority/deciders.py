"""Trusted deciders: PDPs that showed a capability chain from a trusted root, and what each may decide.

Invariant: a decider that `get` returns holds, at that time, a chain from a trusted root that neither expired
nor was revoked as far as was heard, and owns the key it is found by. What no time can change is computed
once; the rest is one comparison until a chain ends or a revocation is heard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from authz.authority.introduction import Introduction
from authz.crypto import AgreementKey, AnswerMac, PublicKey
from authz.errors import AuthFabricError, InvalidSignature
from authz.request import Request
from authz.spki.authority import Grant
from authz.spki.capability import decode_chain
from authz.spki.errors import ChainRefused, InvalidCapability, RevocationUnknown, UseRefused
from authz.spki.ownership import Owners
from authz.spki.reduction import Reduced
from authz.spki.resource import Kind, Resource, Right
from authz.spki.revocation import Notice, Revocations
from authz.spki.use import Spent, Use, permit
from authz.spki.verifier import Verifier

MAX_DECIDERS = 4096
"""Maximum deciders that are remembered: a key that may delegate could make up any number of them."""
OBJECTS_KEPT = 65_536
"""Maximum objects for which a decider remembers whether its authority covers them."""


Follow: TypeAlias = Callable[[PublicKey, PublicKey], bool]
"""Has what a key revoked read from now on, and says whether it is known. The second key is the one that brought it in:
a root, or else whom the root has empowered."""


class Decider:
    """A PDP that was found to be who it says, with what it may decide."""

    __slots__ = (
        "_conditional",
        "_covered",
        "_everything",
        "_plain",
        "introduction",
        "mac",
        "reduced",
        "spent",
        "until",
    )

    def __init__(
        self, introduction: Introduction, reduced: Reduced, until: float, own: AgreementKey, spent: Spent
    ) -> None:
        """`spent` is what it has used up of its rates. Raises InvalidKey if no key can be agreed on with it."""
        self.introduction = introduction
        self.reduced = reduced
        self.until = until
        """From when on its chain must be looked at again."""
        self.mac = AnswerMac.of_asker(own, introduction.agreement)
        grants = reduced.capability.authority.grants
        self._plain = [each for each in grants if not _conditions(each)]
        self._conditional = len(self._plain) < len(grants)
        self._everything = any(_is_everything(each) for each in self._plain)
        self._covered: dict[str, bool] = {}
        self.spent = spent

    @property
    def key(self) -> PublicKey:
        return self.reduced.capability.subject

    def may_decide(self, request: Request, at: float) -> bool:
        """Whether its authority covers the request's object, now. Each call is one use, which rates count."""
        return self.covers(request.object.id) or (self._conditional and self._is_permitted(request, at))

    def covers(self, name: str) -> bool:
        """Whether its authority covers an object, whatever the conditions of some grants say."""
        if self._everything:
            return True
        covered = self._covered.get(name)
        if covered is None:
            if len(self._covered) >= OBJECTS_KEPT:
                self._covered.clear()
            covered = self._covered[name] = any(each.gives(Right.DECIDE, name) for each in self._plain)
        return covered

    def covers_all(self, beginning: str) -> bool:
        """Whether its authority covers all objects whose names begin so, whatever the conditions of some grants say."""
        folder = beginning[: beginning.rfind("/") + 1]
        return self._everything or _gives_all(self._plain, f"{folder}*" if folder.strip("/") else "*")

    def may_decide_under(self, pattern: str) -> bool:
        """Whether its authority covers all objects of a pattern, `*`, `/sales/*` or `/sales/q1`, conditions aside."""
        return self._everything or _gives_all(self.reduced.capability.authority.grants, pattern)

    def may_decide_all(self, requests: Iterable[Request], at: float) -> bool:
        """Whether its authority covers every request unconditionally, so that no rate has to be counted."""
        if self._everything:
            return True
        covered = self._covered
        return not self._conditional and all(
            covered.get(request.object.id) or self.may_decide(request, at) for request in requests
        )

    def _is_permitted(self, request: Request, at: float) -> bool:
        try:
            use = Use(Right.DECIDE, request.object.id, at, request)
            self.spent = permit(self.reduced.capability, use, self.spent).spent
        except UseRefused:
            return False
        return True


class Deciders:
    """The deciders known to one asker. Each root owns all objects of the domain it is trusted for."""

    def __init__(
        self, roots: Iterable[PublicKey], most: int = MAX_DECIDERS, follow: Follow = lambda key, by: True
    ) -> None:
        """Nobody is introduced before it is known what those have revoked on whom its chain rests, as `follow` says."""
        everything = Resource.of(Kind.OBJECT, "*")
        self._verifiers = [Verifier(Owners([(everything, root)]), size=most) for root in roots]
        self._most = most
        self._follow = follow
        self._known: dict[bytes, Decider] = {}
        self._revocations = Revocations()
        for verifier in self._verifiers:
            verifier.revocations = self._revocations
        self._own = AgreementKey.generate()
        self.asker = self._own.public
        """The asker's agreement key, made for this process, so that no answer outlives it."""

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: bytes, at: float) -> Decider | None:
        """The decider with this key, if its authority lasts."""
        decider = self._known.get(key)
        if decider is None or at < decider.until:
            return decider
        return decider if self._check(key, decider, at) else None

    def introduce(self, data: bytes, at: float) -> Decider:
        """Get to know a decider. Raises ChainRefused, MalformedCertificate, InvalidSignature or InvalidKey.

        RevocationUnknown says that it may be introduced once more is known.

        One that is in force is replaced by its successor only: by the same key, over the same agreement key, and
        made later. An agreement key follows from its identity, so another one is not the decider's own, however
        well signed. Whoever repeats an older introduction changes nothing.
        """
        introduction = Introduction.read(data)
        known = self.get(introduction.key, at)
        if known is not None:
            if introduction.agreement != known.introduction.agreement:
                raise InvalidSignature
            if introduction.at <= known.introduction.at:
                return known
        reduced, until = self._verify(introduction, at)
        self._make_room(introduction.key)
        spent = {} if known is None else known.spent
        decider = self._known[introduction.key] = Decider(introduction, reduced, until, self._own, spent)
        return decider

    def accept(self, notice: Notice, at: float) -> None:
        """Heed a revocation from now on. Raises InvalidSignature if it is forged."""
        self._revocations.accept(notice)
        self._revocations.forget(at)
        for key, decider in list(self._known.items()):
            self._check(key, decider, at)

    def forget(self, revoker: PublicKey) -> None:
        """Forget what a key has revoked, and with it every decider whose chain it could have taken back."""
        for key, decider in list(self._known.items()):
            if any(revoker in link.revokers for link in decider.reduced.links):
                del self._known[key]
        self._revocations.drop(revoker)

    def _verify(self, introduction: Introduction, at: float) -> tuple[Reduced, float]:
        problem: AuthFabricError = InvalidSignature()
        for verifier in self._verifiers:
            try:
                reduced = introduction.verify(verifier, at)
            except RevocationUnknown as error:
                self._follow(error.key, _words_of(introduction)[min(error.link, 2) - 1])
                raise
            except AuthFabricError as error:
                problem = error
            else:
                self._check_known(introduction, reduced)
                return reduced, reduced.until(self._revocations)
        raise problem

    def _check_known(self, introduction: Introduction, reduced: Reduced) -> None:
        """Raise RevocationUnknown unless it is known what those have revoked on whom the chain rests."""
        root, *empowered = _words_of(introduction)
        unknown = [
            (number, key)
            for number, link in enumerate(reduced.links, start=1)
            for key in link.revokers
            if not self._follow(key, root if number == 1 else empowered[0])
        ]
        for number, key in unknown:
            raise RevocationUnknown(number, key, f"could be revoked by `{key}`: what it revoked is not known")

    def _check(self, key: bytes, decider: Decider, at: float) -> bool:
        """Look at a chain again, and forget whom it no longer empowers."""
        try:
            decider.reduced.check(at, self._revocations)
        except ChainRefused:
            self._known.pop(key, None)
            return False
        decider.until = decider.reduced.until(self._revocations)
        return True

    def _make_room(self, key: bytes) -> None:
        """Evict the oldest decider if the table is full."""
        if len(self._known) >= self._most and key not in self._known:
            self._known.pop(next(iter(self._known)))


def _words_of(introduction: Introduction) -> list[PublicKey]:
    """On whose word the links of a chain count: the root's for the first, and whom it empowered for all others."""
    return [certificate.issuer for certificate in decode_chain(introduction.chain)[:2]]


def _gives_all(grants: Iterable[Grant], pattern: str) -> bool:
    """Whether one of the grants lets all objects of a pattern be decided."""
    try:
        wanted = Resource.of(Kind.OBJECT, pattern)
    except InvalidCapability:
        return False
    return any(each.allows(Right.DECIDE) and each.resource.intersect(wanted) == wanted for each in grants)


def _conditions(grant: Grant) -> bool:
    return bool(grant.where or grant.windows or grant.rates)


def _is_everything(grant: Grant) -> bool:
    resource = grant.resource
    return (
        resource.pattern == "*"
        and not resource.exceptions
        and resource.kind in (Kind.OBJECT, Kind.ANY)
        and (grant.rights is None or Right.DECIDE in grant.rights)
    )
