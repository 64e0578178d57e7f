"""Renewing credentials and connection before they expire, so that no request is lost."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import replace
from math import inf
from time import time
from typing import TYPE_CHECKING

import msgspec

from authz.spki import MalformedCertificate, decode_chain
from bus.errors import BusError
from bus.identity import Credentials, CredentialsRefused, chain_end, keep_renewed, with_certificate
from bus.nats.access_client import ask_renewal

if TYPE_CHECKING:
    from bus.nats.connection import Connection

SHARE = 0.6
"""Share of its lifetime after which a connection is renewed; the rest is left for retries."""
LOOK_SECONDS = 2.0
MARGIN_SECONDS = 5.0
LEAST_SECONDS = 0.2
"""Minimum seconds between two attempts."""
_WHO_AM_I = "$SYS.REQ.USER.INFO"
_NANOSECOND = 1e-9

_log = logging.getLogger("authfabric.bus")


class _Info(msgspec.Struct, frozen=True):
    expires: int = 0


class _Answer(msgspec.Struct, frozen=True):
    data: _Info = _Info()


async def renewing(connection: Connection) -> None:
    """Renew a connection ahead of its end, again and again. Its end is what the server says: clocks may differ."""
    back = asyncio.Event()
    connection.on_ready.append(back.set)
    try:
        while True:
            back.clear()
            await _renew_in_time(connection, back)
    finally:
        connection.on_ready.remove(back.set)


async def _renew_in_time(connection: Connection, back: asyncio.Event) -> None:
    left = await _seconds_left(connection)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(None if left is None else max(left * SHARE, LEAST_SECONDS)):
            await back.wait()
        return  # it was lost, and has come back with another end
    try:
        await _refresh(connection, left)
        await connection.renew()
    except BusError as error:
        _log.warning("the connection cannot be renewed, and will end: %s", error)


async def _refresh(connection: Connection, left: float | None) -> None:
    """If what is presented ends before the next time, ask for more; without it, go on with what there is."""
    credentials = connection.credentials
    end = _end_of(credentials)
    if credentials is None or end is None or left is None or end - time() > left + MARGIN_SECONDS:
        return
    try:
        answer = await ask_renewal(connection, time())
        fresh = replace(credentials, chain=answer.chain)
        if answer.certificate:
            fresh = with_certificate(fresh, answer.certificate)
    except BusError as error:
        _log.warning("what this presents cannot be renewed, and ends in %.0f s: %s", end - time(), error)
    else:
        connection.credentials = fresh
        await _keep(fresh, answer.certificate)


async def _keep(credentials: Credentials, certificate: str) -> None:
    """Let whoever starts next from the same file have it too. It is of use without that."""
    try:
        await asyncio.to_thread(keep_renewed, credentials, certificate)
    except CredentialsRefused as error:
        _log.warning("what was renewed is not kept: %s", error)


def _end_of(credentials: Credentials | None) -> float | None:
    """When what is presented ends, chain or TLS certificate, as far as its holder can tell; None for never."""
    if credentials is None:
        return None
    ends = inf if credentials.tls_until is None else credentials.tls_until
    with contextlib.suppress(MalformedCertificate):
        ends = min(ends, chain_end(decode_chain(credentials.chain) if credentials.chain else ()))
    return None if ends == inf else ends


async def _seconds_left(connection: Connection) -> float | None:
    """How long the server lets this connection live; None if for ever, or if it does not say."""
    try:
        answer = await connection.ask(_WHO_AM_I, b"", LOOK_SECONDS)
        expires = msgspec.json.decode(answer, type=_Answer).data.expires
    except (BusError, msgspec.DecodeError):
        return None
    return expires * _NANOSECOND or None
