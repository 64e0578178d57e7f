"""Credentials: the word of a domain about one of its clients, by which brokers tell PDPs who is asking."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec
from cachetools import LRUCache

from authz import Entity, Identity, PublicKey
from authz.crypto import Opened, Seal
from authz.errors import InvalidKey, InvalidSignature
from authz.request import Attributes
from pubsub_core.errors import CredentialRefused


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


def read_credential(data: bytes) -> Opened[Credential]:
    """A credential and whoever signed it, which may be anybody. Raises InvalidSignature."""
    return _SEAL.read(data)


def check_own(data: bytes, key: PublicKey, now: float) -> None:
    """Look at one's own credential before it is shown to anybody. Raises CredentialRefused."""
    renew = "have your domain issue another, by `authfabric broker credential`"
    if not data:
        raise CredentialRefused(f"is empty: {renew}")
    try:
        credential = _SEAL.read(data).value
    except InvalidSignature:
        raise CredentialRefused(f"is none, or was altered: {renew}") from None
    if credential.key != str(key):
        raise CredentialRefused(
            f"of `{credential.name}` is for the key `{credential.key}`, and yours is `{key}`:"
            " use the key that it was issued for"
        )
    if now >= credential.until:
        ended = datetime.fromtimestamp(credential.until, UTC).isoformat(" ", "seconds")
        raise CredentialRefused(f"of `{credential.name}` has run out at {ended}: {renew}")


@dataclass(frozen=True, slots=True)
class _Opened:
    credential: Credential
    key: PublicKey


class Credentials:
    """Opens credentials of the domains trusted, and remembers which signatures hold."""

    def __init__(self, trusted: Mapping[str, Collection[PublicKey]], size: int = 4096) -> None:
        """`trusted` are the domains whose credentials count, each with the keys that sign for it and for no other."""
        self._opened: LRUCache[bytes, _Opened] = LRUCache(size)
        self.trust(trusted)

    def trust(self, trusted: Mapping[str, Collection[PublicKey]]) -> None:
        """Trust these keys from now on, and no others."""
        self._trusted = {domain: frozenset(keys) for domain, keys in trusted.items()}
        self._opened.clear()

    def open(self, data: bytes, now: float) -> tuple[Credential, PublicKey]:
        """The credential and its holder's key. Raises CredentialRefused."""
        opened = self._opened.get(data)
        if opened is None:
            try:
                credential, signer = _SEAL.read(data)
            except InvalidSignature:
                raise CredentialRefused("is none, or was altered") from None
            if signer not in self._trusted.get(credential.domain, ()):
                raise CredentialRefused(
                    f"of the domain `{credential.domain}` is signed by `{signer}`, which is not trusted here:"
                    f" `broker serve --clients {credential.domain}=KEY` names who signs for it"
                )
            try:
                opened = _Opened(credential, credential.public_key)
            except InvalidKey:
                raise CredentialRefused("is none, or was altered") from None
            self._opened[data] = opened
        if now >= opened.credential.until:
            raise CredentialRefused(f"of `{opened.credential.name}` has run out: have it renewed")
        return opened.credential, opened.key
