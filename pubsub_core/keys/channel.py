"""What a client and its broker say to each other, sealed, since the servers between them are trusted with nothing.

Each side draws a key pair for one channel and forgets it when they are exchanged. So nothing that is said can be read
later, even by whoever comes to have the identities of both (forward secrecy). The broker signs its half together with
the client's. Who the client is, its signatures say, and each names the channel it is made for (`Channel.binding`).
"""

from __future__ import annotations

from weakref import WeakValueDictionary

from cachetools import LRUCache
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from pubsub_core.keys.derivation import SALT_BYTES, derive
from pubsub_core.keys.errors import CannotOpen
from pubsub_core.keys.hybrid import exchanged
from pubsub_core.keys.nonces import NONCE_BYTES, Numbers, nonce

PUBLIC_BYTES = 32
_HEAD = PUBLIC_BYTES + SALT_BYTES + NONCE_BYTES
MAX_OFFERED = 4096
"""Maximum channels without a session: strangers can open any number."""
_TO_BROKER, _TO_CLIENT = "to broker", "to client"


class Channel:
    """One end of a sealed connection."""

    def __init__(self, client: bytes, secret: bytes, outward: str, inward: str) -> None:
        self._client = client
        self._secret = secret
        self.binding = derive(secret, "channel binding")
        """What only its two ends know of it: what is signed for this channel is good on no other."""
        self._outward = outward
        self._inward = inward
        self._numbers = Numbers()
        self._sealing: tuple[bytes, AESGCM] = (b"", AESGCM(bytes(32)))
        self._opening: tuple[bytes, AESGCM] = self._sealing

    def seal(self, message: bytes) -> bytes:
        number, salt = self._numbers.take(), self._numbers.salt
        if self._sealing[0] != salt:
            self._sealing = salt, self._cipher(self._outward, salt)
        counted = nonce(number)
        return self._client + salt + counted + self._sealing[1].encrypt(counted, message, b"")

    def open(self, data: bytes) -> bytes:
        """What the other end sealed. Raises CannotOpen."""
        salt, counted = (
            data[PUBLIC_BYTES : PUBLIC_BYTES + SALT_BYTES],
            data[PUBLIC_BYTES + SALT_BYTES : _HEAD],
        )
        if data[:PUBLIC_BYTES] != self._client or len(counted) != NONCE_BYTES:
            raise CannotOpen
        cipher = self._opening[1] if self._opening[0] == salt else self._cipher(self._inward, salt)
        try:
            message = cipher.decrypt(counted, data[_HEAD:], b"")
        except (InvalidTag, ValueError):
            raise CannotOpen from None
        self._opening = salt, cipher
        return message

    def _cipher(self, direction: str, salt: bytes) -> AESGCM:
        return AESGCM(derive(self._secret, direction, salt=salt))


class Offer:
    """A client's half of a channel to be."""

    def __init__(self) -> None:
        self._pair = X25519PrivateKey.generate()
        self.public = self._pair.public_key().public_bytes_raw()

    def accept(self, broker: bytes) -> Channel:
        """The client's end, from the broker's half. Raises CannotOpen if that is none."""
        secret = exchanged(self._pair, broker, self.public + broker)
        return Channel(self.public, secret, _TO_BROKER, _TO_CLIENT)


class Channels:
    """A broker's ends of its clients' channels, by the keys that the clients drew.

    A channel lives as long as a session has it. Before that it is one of the last that were offered.
    """

    def __init__(self) -> None:
        self._offered: LRUCache[bytes, Channel] = LRUCache(MAX_OFFERED)
        self._known: WeakValueDictionary[bytes, Channel] = WeakValueDictionary()

    def answer(self, client: bytes) -> bytes:
        """Draw the broker's half for a client's; returns its public key.

        Raises CannotOpen if the client's is none, or has a channel: whoever saw it pass could close that one.
        """
        if client in self._known:
            raise CannotOpen
        pair = X25519PrivateKey.generate()
        public = pair.public_key().public_bytes_raw()
        channel = Channel(client, exchanged(pair, client, client + public), _TO_CLIENT, _TO_BROKER)
        self._known[client] = self._offered[client] = channel
        return public

    def open(self, data: bytes) -> tuple[bytes, Channel]:
        """A message, and the channel by which it came. Raises CannotOpen."""
        channel = self._known.get(data[:PUBLIC_BYTES])
        if channel is None:
            raise CannotOpen
        return channel.open(data), channel
