"""By what right a replica answers: its own key, and the chain of capabilities that lets it decide.

Keys agreed on with askers are remembered, since agreeing costs more than deciding; as many as there is room
for, so that whoever makes up askers fills no memory.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from authz import Identity
from authz.authority import Introduction
from authz.crypto import AgreementKey, AnswerMac
from authz.errors import InvalidKey
from authz.spki import Certificate
from bus.wire import Announcement, wrap

MAX_ASKERS = 16_384


class AnswerAuthority:
    """What a replica shows of itself, and authenticates its answers by."""

    def __init__(
        self, identity: Identity, chain: Iterable[Certificate], at: float, askers: int = MAX_ASKERS
    ) -> None:
        """`at` is now: what is shown from now on takes the place of what was shown before."""
        self.identity = identity
        self._own = AgreementKey.of(identity)
        self._sender = identity.public.raw
        self._macs: dict[bytes, AnswerMac] = {}
        self._most = askers
        self.renew(chain, at)

    def renew(self, chain: Iterable[Certificate], at: float) -> None:
        """Show another chain from now on, as when the one before it expires."""
        self.introduction = Introduction.of(self.identity, tuple(chain), at).encode()
        """What others must see before they believe an answer."""

    def authenticate(self, asker: bytes, subject: str, question: bytes, answer: bytes) -> bytes:
        """The answer to a question, so that this asker can tell who gave it. Raises InvalidKey for no asker's key."""
        mac = self._macs.get(asker) or self._agree(asker)
        return wrap(self._sender, mac.tag(subject, question, answer), answer)

    def answer(self, asker: bytes, subject: str, question: bytes, answer: bytes) -> bytes:
        """The same for an asker that may be none: it gets the answer as it is."""
        if not asker or not self.accepts(asker):
            return answer
        return self.authenticate(asker, subject, question, answer)

    def announcement(self, scopes: list[str], ttl: float, at: float) -> Announcement:
        """What this replica says it serves, so that nobody else can say so in its name."""
        unsigned = Announcement(scopes, ttl, self.introduction, at)
        return replace(unsigned, signature=self.identity.sign(unsigned.signed()))

    def accepts(self, asker: bytes) -> bool:
        """Whether answers to this asker can be authenticated."""
        try:
            return asker in self._macs or self._agree(asker) is not None
        except InvalidKey:
            return False

    def _agree(self, asker: bytes) -> AnswerMac:
        mac = AnswerMac.of_decider(self._own, asker)
        if len(self._macs) >= self._most:
            del self._macs[next(iter(self._macs))]
        self._macs[asker] = mac
        return mac
