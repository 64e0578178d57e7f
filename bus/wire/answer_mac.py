"""Authenticated answers: the sender's key, a message authentication code that only the asker can check, and the answer.

The first byte is no version of the plain form, so that neither is ever taken for the other.
"""

from __future__ import annotations

from authz.crypto import KEY_BYTES, TAG_BYTES

MARK = b"\xa1"
_TAG = 1 + KEY_BYTES
_ANSWER = _TAG + TAG_BYTES


def wrap(sender: bytes, tag: bytes, answer: bytes) -> bytes:
    return MARK + sender + tag + answer


def unwrap(payload: bytes) -> tuple[bytes, bytes, bytes] | None:
    """Sender, tag and answer, of which nothing is true before the tag was checked; None if it is of another form."""
    if payload[:1] != MARK or len(payload) < _ANSWER:
        return None
    return payload[1:_TAG], payload[_TAG:_ANSWER], payload[_ANSWER:]
