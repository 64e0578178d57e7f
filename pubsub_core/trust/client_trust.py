"""A client's trust in its broker: for each type, whether somebody whom the client trusts vouches for the broker.

That is the owner of the type, if the client trusts that owner, or the domain that gave the client its credential, for
any type. The broker shows the chain of vouches; the client verifies it against the key by which the broker has proved
itself. Invariant: nothing is published to, or read from, a broker that is not trusted with the type.
"""

from __future__ import annotations

from authz import PublicKey
from authz.errors import InvalidSignature
from pep.trust import UNVERIFIED, Keys, Unverified, read_keys
from pubsub_core.errors import BrokerUntrusted
from pubsub_core.trust.broker_trust import Web
from pubsub_core.trust.credential import signer_of
from pubsub_core.types import EventType


class BrokerTrust:
    """The keys that a client trusts to vouch for brokers."""

    def __init__(self, trust: Keys | Unverified | None, credential: bytes) -> None:
        """`trust` are owners of types; the domain that signed the credential is trusted anyway. Raises InvalidKey."""
        self._anybody = trust is UNVERIFIED
        self._owners = frozenset() if trust is None or isinstance(trust, Unverified) else read_keys(trust)
        self._roots = frozenset() if self._anybody else frozenset({signer_of(credential)})
        self._webs: dict[str, tuple[EventType, PublicKey, Web]] = {}

    def check(
        self, name: str, key: PublicKey, type_: EventType, vouches: tuple[bytes, ...], now: float
    ) -> None:
        """Verify that the broker with this key may carry a type. Raises BrokerUntrusted."""
        if self._anybody:
            return
        web = Web(self._roots)
        web.owners = frozenset({type_.owner} if type_.owner_key in self._owners else ())
        try:
            web.learn(*vouches)
        except InvalidSignature:
            raise BrokerUntrusted(name, str(key), type_.name, "it shows a forged vouch") from None
        if not _trusts(web, key, type_, now):
            self._webs.pop(type_.id, None)
            raise BrokerUntrusted(name, str(key), type_.name, _problem(type_, known=bool(web.owners)))
        self._webs[type_.id] = type_, key, web

    @property
    def used(self) -> list[EventType]:
        """The types that were verified for any broker."""
        return [type_ for type_, _, _ in self._webs.values()]

    def lapsed(self, key: PublicKey | None, now: float) -> list[EventType]:
        """The types with which the broker is no longer trusted, or that were verified for another key."""
        return [
            type_
            for type_, verified, web in self._webs.values()
            if verified != key or not _trusts(web, verified, type_, now)
        ]


def _trusts(web: Web, broker: PublicKey, type_: EventType, now: float) -> bool:
    return web.trusts(str(broker), type_.id, next(iter(web.owners), ""), now)


def _problem(type_: EventType, known: bool) -> str:
    owner = f"the type's owner `{type_.owner}`"
    if known:
        return f"neither {owner} nor the client's domain vouches for it (`authfabric broker vouch`)"
    return f"the client's domain does not vouch for it, and {owner} is not among those given as `trust`"
