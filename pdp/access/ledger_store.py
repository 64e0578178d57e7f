"""The ledger of issued capabilities, by role session, shared by all replicas of an access control service.

An entry is written before its capability is handed out, so whichever replica hears that a session has lost a role can
take back everything that rests on it, whoever gave it.
"""

from __future__ import annotations

from authz.spki import Certificate, MalformedCertificate, decode_chain, encode_chain
from bus.nats import Connection
from bus.stores import RecordStore
from bus.wire import subjects


class Ledger:
    """The capabilities of all sessions. Everything here raises StoreUnavailable if the store is away."""

    def __init__(self, connection: Connection) -> None:
        self._records = RecordStore(connection, subjects.ISSUED)

    async def note(self, session: str, certificate: Certificate) -> None:
        """Take note of a capability that is about to be handed out."""
        await self._records.put(_name(session, certificate), encode_chain([certificate]))

    async def strike(self, session: str, certificate: Certificate) -> None:
        """Forget a capability that was revoked, or has expired."""
        await self._records.erase(_name(session, certificate))

    async def of(self, session: str) -> list[Certificate]:
        """What was handed out for a session."""
        return [each for _, each in await self._read(subjects.token(session))]

    async def sessions(self) -> list[str]:
        """The sessions for which anything was handed out."""
        return list(dict.fromkeys(session for session, _ in await self._read()))

    async def _read(self, below: str = "") -> list[tuple[str, Certificate]]:
        found = list[tuple[str, Certificate]]()
        for record in await self._records.all(below):
            try:
                (certificate,) = decode_chain(record.data)
            except (MalformedCertificate, ValueError):
                continue  # it was struck off
            found.append((subjects.untoken(record.name.partition(".")[0]), certificate))
        return found


def _name(session: str, certificate: Certificate) -> str:
    return f"{subjects.token(session)}.{certificate.id.hex()}"
