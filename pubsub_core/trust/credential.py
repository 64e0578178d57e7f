"""Credentials: the word of a domain about one of its clients, by which brokers tell PDPs who is asking."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import msgspec
from cachetools import LRUCache

from authz import Entity, Identity, PublicKey
from authz.crypto import Seal, UntrustedSigner
from authz.errors import InvalidKey, InvalidSignature
from authz.request import Attributes
from pubsub_core.errors import Refused


class Credential(msgspec.Struct, frozen=True):
    """Whoever holds this key is known in the domain by this name, with these attributes, until this Unix time."""

    key: str
    name: str
    domain: str
    until: float
    attributes: Attributes = {}

    @property
    def public_key(self) -> PublicKey:
        return PublicKey.parse(self.key)

    @property
    def entity(self) -> Entity:
        """The subject about whom PDPs are asked."""
        return Entity(self.name, {**self.attributes, "key": self.key, "domain": self.domain})


_SEAL = Seal("credential", Credential)


def issue(credential: Credential, by: Identity) -> bytes:
    """The credential, signed by its domain."""
    return _SEAL.sign(credential, by)


def signer_of(data: bytes) -> PublicKey:
    """The key of the domain that signed a credential. Raises InvalidSignature."""
    return _SEAL.read(data).signer


@dataclass(frozen=True, slots=True)
class _Opened:
    credential: Credential
    key: PublicKey


class Credentials:
    """Opens credentials of the domains trusted, and remembers which signatures hold."""

    def __init__(self, trusted: Mapping[str, Collection[PublicKey]], size: int = 4096) -> None:
        """`trusted` are the domains whose credentials count, each with the keys that sign for it and for no other."""
        self._trusted = {domain: frozenset(keys) for domain, keys in trusted.items()}
        self._opened: LRUCache[bytes, _Opened] = LRUCache(size)

    def open(self, data: bytes, now: float) -> tuple[Credential, PublicKey]:
        """The credential and its holder's key. Raises Refused if it has run out, InvalidSignature, UntrustedSigner."""
        opened = self._opened.get(data)
        if opened is None:
            credential, signer = _SEAL.read(data)
            if signer not in self._trusted.get(credential.domain, ()):
                raise UntrustedSigner(f"credential of the domain `{credential.domain}`", str(signer))
            try:
                opened = _Opened(credential, credential.public_key)
            except InvalidKey:
                raise InvalidSignature from None
            self._opened[data] = opened
        if now >= opened.credential.until:
            raise Refused("use", opened.credential.name, "the credential has run out: have it renewed")
        return opened.credential, opened.key
