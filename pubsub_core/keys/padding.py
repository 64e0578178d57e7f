"""Padding to size classes, so that the length of what is sealed tells little about what it says."""

from __future__ import annotations

from bisect import bisect_left

_END = b"\x80"


def padded_size(size: int, classes: tuple[int, ...]) -> int:
    """The smallest class that holds `size` bytes; beyond the largest, the next multiple of it."""
    largest = classes[-1]
    if size > largest:
        return -(-size // largest) * largest
    return classes[bisect_left(classes, size)]


def pad(data: bytes, classes: tuple[int, ...]) -> bytes:
    """The data, an end mark, and zeros up to the size class (ISO/IEC 7816-4)."""
    if not classes:
        return data
    return (data + _END).ljust(padded_size(len(data) + 1, classes), b"\0")


def unpad(data: bytes) -> bytes:
    """What was padded. Only what was authenticated is given here, so nothing can be learned from how it fails."""
    return data.rstrip(b"\0")[:-1]
