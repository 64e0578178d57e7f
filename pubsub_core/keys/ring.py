"""The data keys that a broker holds: for each key group one for each epoch, tagged with the time at which it begins.

An event's time selects its key. Clocks differ, and the news of a new key takes a while to reach a sender, so a key
counts a little before it begins and a little after the next one has: `skew` bounds both. Keys that ended are
kept for the destruction delay, for events under way, and are then overwritten.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from pubsub_core.keys.derivation import KEY_BYTES, derive, wipe

SKEW = 5.0
"""Seconds by which two brokers' clocks may differ."""


class DataKey:
    """The key of one group for one epoch."""

    def __init__(self, group: str, epoch: int, start: float, secret: bytes) -> None:
        if len(secret) != KEY_BYTES:
            raise ValueError(f"a data key has {KEY_BYTES} bytes, not {len(secret)}")
        self.group = group
        self.epoch = epoch
        self.start = start
        """From this time on it is sealed with."""
        self.until = math.inf
        """The time at which the next one starts, as far as it is known."""
        self.label = bytes.fromhex(group) + epoch.to_bytes(8, "big")
        self._secret = bytearray(secret)

    def cipher(self, salt: bytes) -> AESGCM:
        """The cipher of whoever drew this salt."""
        return AESGCM(derive(self._secret, "sender", self.label, salt))

    def routing_key(self, type_: str) -> bytes:
        """What digests of values are keyed with by which events of a type are routed."""
        return derive(self._secret, "route", self.label + type_.encode())

    def destroy(self) -> None:
        wipe(self._secret)

    def __repr__(self) -> str:
        return f"DataKey(group={self.group}, epoch={self.epoch}, start={self.start})"


class GroupKeys:
    """The keys of one group, by epoch."""

    def __init__(self) -> None:
        self._keys: dict[int, DataKey] = {}
        self._end = math.inf
        self.departed: dict[str, int] = {}
        """The marks of those who were members, each with the first epoch in which it was none."""

    def __iter__(self) -> Iterator[DataKey]:
        """The oldest first."""
        return iter(self._keys.values())

    def add(self, key: DataKey) -> None:
        """Hold one more key; one of an epoch that is held already is not needed again."""
        self._keys.setdefault(key.epoch, key)
        self._arrange()

    @property
    def newest(self) -> int:
        """The newest epoch of which there is a key; 0 if there is none."""
        return next(reversed(self._keys), 0)

    def sealing(self, at: float, skew: float) -> DataKey | None:
        """The key to seal with at this time: the newest that has begun, or the first, if it is just about to."""
        first = next(iter(self._keys.values()), None)
        if first is not None and first.start - skew <= at < first.start:
            return first
        return next((key for key in reversed(self._keys.values()) if key.start <= at), None)

    def begins(self, at: float) -> float:
        """When the next key begins that has not begun at this time; never, if there is none."""
        return min((key.start for key in self if not key.start <= at), default=math.inf)

    def at(self, epoch: int) -> DataKey | None:
        return self._keys.get(epoch)

    def opening(self, epoch: int, at: float, skew: float) -> DataKey | None:
        """The key of an epoch, if an event of this time may have been sealed with it."""
        key = self._keys.get(epoch)
        return key if key is not None and key.start - skew <= at < key.until + skew else None

    def expire(self, now: float, delay: float) -> int:
        """Destroy the keys whose successor began longer ago than the destruction delay; returns how many."""
        ended = [key for key in self if key.until + delay <= now]
        for key in ended:
            key.destroy()
            del self._keys[key.epoch]
        oldest = next(iter(self._keys), 0)
        self.departed = {name: since for name, since in self.departed.items() if since > oldest}
        return len(ended)

    def retire(self, until: float) -> None:
        """Have the newest key end at a time, though no other follows; also one that comes yet."""
        self._end = until
        self._arrange()

    def destroy(self) -> None:
        for key in self:
            key.destroy()
        self._keys.clear()

    def _arrange(self) -> None:
        """Order by epoch; a key ends when the next one starts."""
        ordered = sorted(self._keys.values(), key=lambda key: key.epoch)
        for key, after in itertools.pairwise(ordered):
            key.until = after.start
        ordered[-1].until = self._end
        self._keys = {key.epoch: key for key in ordered}


class KeyRing:
    """All keys that a broker holds, by the id of their group."""

    def __init__(self, skew: float = SKEW) -> None:
        self.skew = skew
        self.revision = 0
        """Grows with every change, for those who keep what they found here."""
        self.departures = 0
        """Grows when others have left groups."""
        self._groups: dict[str, GroupKeys] = {}

    def holds(self, group: str) -> bool:
        return group in self._groups

    @property
    def groups(self) -> frozenset[str]:
        return frozenset(self._groups)

    def of(self, group: str) -> GroupKeys | None:
        return self._groups.get(group)

    def sealing(self, group: str, at: float) -> DataKey | None:
        keys = self._groups.get(group)
        return keys.sealing(at, self.skew) if keys is not None else None

    def begins(self, group: str, at: float) -> float:
        """When the next key of a group begins that has not begun at this time; never, if there is none."""
        keys = self._groups.get(group)
        return keys.begins(at) if keys is not None else math.inf

    def at(self, group: str, epoch: int) -> DataKey | None:
        """The key of an epoch, whatever the time."""
        keys = self._groups.get(group)
        return keys.at(epoch) if keys is not None else None

    def opening(self, group: str, epoch: int, at: float, sender: str = "") -> DataKey | None:
        """The key of an epoch, if it may have been used at this time, and by this broker."""
        keys = self._groups.get(group)
        if keys is None or self.has_left(sender, [(group, epoch)]):
            return None
        return keys.opening(epoch, at, self.skew)

    def part(self, group: str, departed: Mapping[str, int]) -> None:
        """Take nothing from these brokers under keys of epochs before those in which they were no members."""
        keys = self._groups.get(group)
        if keys is not None and not departed.items() <= keys.departed.items():
            keys.departed |= departed
            self.departures += 1

    def has_left(self, sender: str, keys: Iterable[tuple[str, int]]) -> bool:
        """Whether a broker uses one of these keys that it had before it left, or was made to leave, the group."""
        if not self.departures or not sender:
            return False
        who = mark(sender)
        held = ((self._groups.get(group), epoch) for group, epoch in keys)
        return any(own is not None and epoch < own.departed.get(who, 0) for own, epoch in held)

    def add(self, key: DataKey) -> None:
        self._groups.setdefault(key.group, GroupKeys()).add(key)
        self.revision += 1

    def drop(self, group: str) -> None:
        """Destroy all keys of a group that was left."""
        keys = self._groups.pop(group, None)
        if keys is not None:
            keys.destroy()
            self.revision += 1

    def retire(self, group: str, until: float) -> None:
        """Seal nothing more for a group that is no longer, and open what others seal for it until a time."""
        if group in self._groups:
            self._groups[group].retire(until)
            self.revision += 1

    def expire(self, now: float, delay: float) -> int:
        """Destroy what ended longer ago than the destruction delay; returns how many keys that were."""
        expired = sum(keys.expire(now, delay) for keys in self._groups.values())
        self._groups = {group: keys for group, keys in self._groups.items() if keys.newest}
        self.revision += bool(expired)
        return expired


def mark(broker: str) -> str:
    """A short digest of a broker's key, for long lists; nobody finds another key with the same."""
    return hashlib.blake2b(broker.encode(), digest_size=16).hexdigest()
