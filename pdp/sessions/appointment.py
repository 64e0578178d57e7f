"""Appointments: signed certificates that qualify their holder for roles. One confers nothing by itself.

It outlives the session of whoever gave it, unless it is bound to that session, and ends by its validity or by
revocation: through its appointer, through the role the appointer acted in, or through the system.
"""

from __future__ import annotations

import msgspec
from msgspec import structs

from authz import Identity, PublicKey
from authz.errors import InvalidKey, InvalidSignature
from pdp.oasis import Instance, InvalidAppointment, is_constant

BEARER = "*"
"""The holder of an appointment that counts for whoever presents it."""

_PURPOSE = b"authfabric appointment 1\0"
_encode = msgspec.msgpack.Encoder(order="deterministic").encode


class Appointment(msgspec.Struct, frozen=True, array_like=True):
    """A certificate. `issuer` and `serial` name it; the signature covers every other field."""

    issuer: str
    """The public key that signed it: that of the appointer's domain."""
    serial: str
    name: str
    params: tuple[str | int, ...]
    holder: str
    """The principal it was given to, or `*` for whoever presents it."""
    not_before: float
    expires: float | None
    """Unix times between which it counts; None for no end."""
    appointer: str
    """The principal who gave it."""
    role: str
    """The full name of the role in which they gave it; empty if the system did."""
    session: str = ""
    """The session it is bound to and ends with; empty if it is not bound."""
    signature: bytes = b""

    @property
    def content(self) -> Instance:
        """What it says, as rules match it."""
        return Instance(self.name, self.params)

    def signed(self, by: Identity) -> Appointment:
        """The same, issued and signed by this identity."""
        unsigned = structs.replace(self, issuer=str(by.public), signature=b"")
        return structs.replace(unsigned, signature=by.sign(_message(unsigned)))

    def verify(self) -> None:
        """Raise InvalidSignature unless its issuer signed exactly this."""
        try:
            issuer = PublicKey.parse(self.issuer)
        except InvalidKey:
            raise InvalidSignature from None
        issuer.verify(self.signature, _message(structs.replace(self, signature=b"")))

    def check(self, holder: str, trusted: frozenset[str]) -> None:
        """Raise unless it is genuine, from a key trusted for it, and this holder's own."""
        if not all(map(is_constant, self.params)):
            raise InvalidAppointment(self.name, "has parameters that are neither strings nor whole numbers")
        if self.issuer not in trusted:
            raise InvalidAppointment(self.name, f"is signed by `{self.issuer}`, which no rule trusts for it")
        if self.holder not in (holder, BEARER):
            raise InvalidAppointment(self.name, f"was given to `{self.holder}`, not to `{holder}`")
        self.verify()

    def valid_at(self, now: float) -> bool:
        return self.not_before <= now and (self.expires is None or now < self.expires)


def _message(unsigned: Appointment) -> bytes:
    return _PURPOSE + _encode(unsigned)
