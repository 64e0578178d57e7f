"""What a client and its broker say to each other, sealed, since the servers between them are trusted with nothing.

The client draws a key pair for its connection and exchanges it with the broker's; its public half goes with each
message, so a broker that has forgotten the client can still answer it. Who the client is, its signatures say.
"""

from __future__ import annotations

from cachetools import LRUCache
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from authz import Identity
from pubsub_core.keys.derivation import SALT_BYTES, derive
from pubsub_core.keys.errors import CannotOpen
from pubsub_core.keys.exchange import Secrets, exchanged
from pubsub_core.keys.numbers import NONCE_BYTES, Numbers, nonce

PUBLIC_BYTES = 32
_HEAD = PUBLIC_BYTES + SALT_BYTES + NONCE_BYTES
MAX_CHANNELS = 65_536
_TO_BROKER, _TO_CLIENT = "to broker", "to client"


class Channel:
    """One end of a sealed connection."""

    def __init__(self, client: bytes, secret: bytes, outward: str, inward: str) -> None:
        self._client = client
        self._secret = secret
        self._outward = outward
        self._inward = inward
        self._numbers = Numbers()
        self._sealing: tuple[bytes, AESGCM] = (b"", AESGCM(bytes(32)))
        self._opening: tuple[bytes, AESGCM] = self._sealing

    @classmethod
    def to(cls, broker: bytes) -> Channel:
        """A client's end, to a broker with this exchange key. Raises CannotOpen if it is none."""
        pair = X25519PrivateKey.generate()
        public = pair.public_key().public_bytes_raw()
        return cls(public, exchanged(pair, broker, public + broker), _TO_BROKER, _TO_CLIENT)

    @classmethod
    def of(cls, client: bytes, secrets: Secrets) -> Channel:
        """A broker's end, to the client that shows this key. Raises CannotOpen if it is none."""
        return cls(client, secrets.exchange(client), _TO_CLIENT, _TO_BROKER)

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


class Channels:
    """A broker's ends of all its clients' channels, by the keys that the clients show."""

    def __init__(self, broker: Identity) -> None:
        self._secrets = Secrets(broker, "broker")
        self.public = self._secrets.public
        """The broker's exchange key."""
        self._known: LRUCache[bytes, Channel] = LRUCache(MAX_CHANNELS)

    def open(self, data: bytes) -> tuple[bytes, Channel]:
        """A message, and the channel by which it came. Raises CannotOpen."""
        client = data[:PUBLIC_BYTES]
        channel = self._known.get(client)
        if channel is not None:
            return channel.open(data), channel
        channel = Channel.of(client, self._secrets)
        message = channel.open(data)
        self._known[client] = channel  # only now, or strangers could drive the others out
        return message, channel
