"""Signed values with domain separation: a signature made for one purpose is never taken for another."""

from __future__ import annotations

from collections.abc import Collection
from typing import Generic, NamedTuple, TypeVar

import msgspec

from authz.crypto.identity import Identity, PublicKey
from authz.errors import UNREADABLE, AuthFabricError, InvalidKey, InvalidSignature

T = TypeVar("T")

_encode = msgspec.msgpack.Encoder(order="deterministic").encode


class UntrustedSigner(AuthFabricError):
    """Something well signed by a key that is not trusted for it."""

    def __init__(self, what: str, signer: str) -> None:
        super().__init__(
            f"the {what} is signed by `{signer}`, which is not trusted here: name that key by `--trust` if its word"
            " should count, or have a trusted key sign it anew"
        )
        self.what = what
        self.signer = signer


class _Signed(msgspec.Struct, frozen=True, array_like=True):
    content: bytes
    signer: str
    signature: bytes


_decode_signed = msgspec.msgpack.Decoder(_Signed).decode


class Opened(NamedTuple, Generic[T]):
    """A value whose signature holds."""

    value: T
    signer: PublicKey


class Seal(Generic[T]):
    """Signs and opens values of one type for one purpose, such as `release`."""

    def __init__(self, purpose: str, kind: type[T]) -> None:
        self._purpose = purpose
        if "\0" in purpose:  # it would end the prefix early, where that of another purpose ends
            raise ValueError(f"a purpose must have no NUL: {purpose!r}")
        self._domain = f"authfabric {purpose} 1\0".encode()
        self._decode = msgspec.msgpack.Decoder(kind).decode

    def sign(self, value: T, identity: Identity) -> bytes:
        content = _encode(value)
        signature = identity.sign(self._domain + content)
        return _encode(_Signed(content, str(identity.public), signature))

    def open(self, data: bytes, trusted: Collection[PublicKey]) -> Opened[T]:
        """The value, if a trusted key signed it. Raises UntrustedSigner, or InvalidSignature for all else."""
        opened = self.read(data)
        if opened.signer not in trusted:
            raise UntrustedSigner(self._purpose, str(opened.signer))
        return opened

    def read(self, data: bytes) -> Opened[T]:
        """The value and whoever signed it: what that is worth is for the caller to say. Raises InvalidSignature."""
        return self._open(data, verify=True)

    def peek(self, data: bytes) -> Opened[T]:
        """The value and whoever is said to have signed it, unverified: good for deciding whether to verify it."""
        return self._open(data, verify=False)

    def _open(self, data: bytes, verify: bool) -> Opened[T]:
        try:
            signed = _decode_signed(data)
            signer = PublicKey.parse(signed.signer)
            if verify:
                signer.verify(signed.signature, self._domain + signed.content)
            value = self._decode(signed.content)
        except (*UNREADABLE, InvalidKey):
            raise InvalidSignature from None
        return Opened(value, signer)
