"""What can be wrong with a capability: its words, its bytes, its chain or its use."""

from __future__ import annotations

import enum

from authz.crypto import PublicKey
from authz.errors import AuthFabricError


def printable(text: str) -> str:
    """One line that does no harm in a log or a terminal, for a stranger may have chosen its words."""
    return text if text.isprintable() else "".join(each if each.isprintable() else "?" for each in text)


class InvalidCapability(AuthFabricError):
    """A value that cannot stand in a capability: `field` says which, `problem` what would be right."""

    def __init__(self, field: str, problem: str) -> None:
        problem = printable(problem)
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class MalformedCertificate(AuthFabricError):
    """Bytes that are not the one encoding of a certificate, a chain or a revocation."""

    def __init__(self, problem: str) -> None:
        problem = printable(problem)
        super().__init__(f"malformed certificate: {problem}")
        self.problem = problem


class Fault(enum.StrEnum):
    """The ways in which a chain, or a use of what it grants, fails."""

    EMPTY = "empty"
    TOO_LONG = "too-long"
    NOT_AN_OWNER = "not-an-owner"
    BROKEN = "broken"
    NOT_DELEGABLE = "not-delegable"
    CYCLIC = "cyclic"
    WIDENED = "widened"
    TOO_COMPLEX = "too-complex"
    NOT_YET_VALID = "not-yet-valid"
    EXPIRED = "expired"
    NEVER_VALID = "never-valid"
    REVOKED = "revoked"
    REVOCATION_UNKNOWN = "revocation-unknown"
    MALFORMED = "malformed"
    NOT_THE_HOLDER = "not-the-holder"
    BAD_SIGNATURE = "bad-signature"
    NOT_GRANTED = "not-granted"
    OUTSIDE_WINDOW = "outside-window"
    OVER_RATE = "over-rate"
    CONTENT = "content"


class ChainRefused(AuthFabricError):
    """A chain that proves nothing: `link`, from 1, is the first that fails (0: the chain as a whole)."""

    def __init__(self, link: int, fault: Fault, problem: str) -> None:
        problem = printable(problem)
        super().__init__(f"link {link} of the chain {problem}" if link else f"the chain {problem}")
        self.link = link
        self.fault = fault
        self.problem = problem


class RevocationUnknown(ChainRefused):
    """A link of which it is not known whether it was taken back: what `key` has revoked is not known, or too old."""

    def __init__(self, link: int, key: PublicKey, problem: str) -> None:
        super().__init__(link, Fault.REVOCATION_UNKNOWN, problem)
        self.key = key


class UseRefused(AuthFabricError):
    """A use that a capability, sound in itself, does not permit."""

    def __init__(self, fault: Fault, problem: str) -> None:
        problem = printable(problem)
        super().__init__(problem)
        self.fault = fault
        self.problem = problem
