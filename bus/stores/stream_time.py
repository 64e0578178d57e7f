"""The clock of the server that leads a stream: it dates what is stored there."""

from __future__ import annotations

from datetime import datetime

import msgspec

from bus.errors import StoreUnavailable
from bus.nats import Connection


class _Info(msgspec.Struct, frozen=True):
    ts: datetime | None = None


_decode = msgspec.json.Decoder(_Info).decode


async def ask_time(connection: Connection, stream: str, seconds: float) -> float:
    """What it shows, in Unix seconds. Raises a BusError."""
    answer = await connection.ask(f"$JS.API.STREAM.INFO.{stream}", b"", seconds)
    try:
        said = _decode(answer).ts
    except msgspec.DecodeError as error:
        raise StoreUnavailable(str(error)) from None
    if said is None:
        raise StoreUnavailable("it does not say what time it is")
    return said.timestamp()
