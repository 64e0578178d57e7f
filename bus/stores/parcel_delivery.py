"""A parcel as a consumer delivers it. Its place in the stream is part of the subject of its acknowledgement."""

from __future__ import annotations

from dataclasses import dataclass, field

SENDER_HEADER = "Authfabric-Broker"
"""Names the place of the broker that published a parcel."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """A parcel as it stands in the stream."""

    number: int
    subject: str
    time: float
    """When the stream took it in, in Unix seconds."""
    id: str
    """The place of the broker that published it, and its `Nats-Msg-Id`, joined by a dot."""
    data: bytes = field(repr=False)


def read_delivery(
    subject: str, reply: str, payload: bytes, headers: bytes
) -> tuple[str, int, Arrived] | None:
    """The consumer that delivers a message, its count there, and the message; None if it is something else."""
    words = reply.split(".")
    if len(words) < 9 or words[:2] != ["$JS", "ACK"]:
        return None
    place = 3 if len(words) == 9 else 5  # with the server's domain and account in front, or without
    number, delivered, moment = map(int, words[place + 2 : place + 5])
    return words[place], delivered, Arrived(number, subject, moment / 1e9, _id(headers), payload)


def _id(headers: bytes) -> str:
    """Who published a message, and its `Nats-Msg-Id`; nothing for what it does not say."""
    sender = word = ""
    for line in headers.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"nats-msg-id":
            word = value.strip().decode("ascii", "replace")
        elif name == SENDER_HEADER.encode():
            sender = value.strip().decode("ascii", "replace")
    return f"{sender}.{word}" if sender else word
