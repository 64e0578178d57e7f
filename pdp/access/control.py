"""Connection control: whether a client may connect, and which subjects its capability chain gives it.

After Pesonen, Eyers and Bacon, "Access Control in Decentralised Publish/Subscribe Systems", section IV: the
server's nonce is the challenge, and whoever signed it presents a chain that must end with their key. What signs it is
a connection key, since a server chooses nonces; the holder of the chain has bound that key to its own. Invariant:
nobody is let in for longer, or to more, than a sound chain that ends with a key for which they have just proved to
speak.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce

from cachetools import LRUCache
from msgspec.structs import replace

from authz import AuthFabricError, PublicKey
from authz.errors import InvalidKey, InvalidSignature
from authz.spki import (
    Authority,
    Capability,
    Certificate,
    ChainRefused,
    Fault,
    Grant,
    Notice,
    Reduced,
    Right,
    Use,
    UseRefused,
    Verifier,
    decode_chain,
    encode_chain,
    permit,
)
from authz.spki.use import Spent
from bus.identity import certified_key, read_token
from bus.nats import CARRIED_MARK
from bus.server import Admission, Arrival, Carried, Permissions, permissions
from bus.wire import subjects

_MINUTE = 60
_MARK_BYTES = 16


class NotAdmitted(AuthFabricError):
    """Somebody was turned away: `problem` says why, to us and not to them. `key` is empty where none was proved."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(f"`{key}` {problem}" if key else f"somebody who proves no key {problem}")
        self.key = key
        self.problem = problem


@dataclass(frozen=True, slots=True)
class AccessRules:
    """What binds everybody alike."""

    session_seconds: float = 3600.0
    """Seconds after which a connection must be admitted anew: while nobody can be revoked, nothing lasts longer."""
    connections: int = 256
    """How many one key may have at once."""
    revocations_seconds: float = 60.0
    """Maximum age, in seconds, of what a replica knows of revocations; later it lets nobody in."""
    notices: int = 512
    """Maximum revocation notices that one submitter has stored, besides those of owners."""
    notice_bytes: int = 16 * 1024
    """Maximum size of each."""
    needs_certificate: bool = True
    """Whether the TLS certificate must be over the holder's key, so that no server in between can pass a proof on."""


@dataclass(frozen=True, slots=True)
class Identified:
    """Somebody who has proved to speak for a key, and the capability chain that they present."""

    key: PublicKey
    chain: bytes


@dataclass(frozen=True, slots=True)
class Admitted:
    """Somebody let in, and what would unprove what they showed."""

    key: PublicKey
    marks: tuple[bytes, ...]
    """Of the certificates it rests on and the keys they empower, each with every key that can take it back."""
    permissions: Permissions
    until: float
    carried: str = ""
    """What stands for the types it may carry; nothing for those who have no right to carry any."""

    @property
    def admission(self) -> Admission:
        return Admission(write_label(self.key, self.marks, self.carried), self.permissions, self.until)


class AccessControl:
    """Decides on arrivals by the owners known, the revocations heard and what the domain itself was granted."""

    def __init__(
        self,
        verifier: Verifier,
        service: PublicKey,
        holdings: Iterable[Sequence[Certificate]],
        rules: AccessRules = AccessRules(),
        domains: Iterable[str] = (),
        trusted: Iterable[PublicKey] = (),
    ) -> None:
        """`holdings` are the chains that end with the service's key: what it may pass on; and with that of before,
        while it counts.

        `trusted` are keys besides the owners' by whose word members go, and who can take it back.

        Whoever presents certificates that begin with such a key's has all of these before them that end with it. So a
        blanket grant to a broker reaches what the service is granted later.
        """
        self.verifier = verifier
        self.rules = rules
        self.domains = frozenset(domains)
        self.trusted = frozenset(trusted)
        self._service = service
        self.holdings = tuple(map(tuple, holdings))
        self.carried: Callable[[str], Carried] = lambda place: Carried()
        """The types that whoever has a place may carry, if it may carry any."""
        self._revoked: set[bytes] = set()
        """The marks of what was taken back."""
        self._spent: LRUCache[PublicKey, Spent] = LRUCache(65_536)

    def admit(self, arrival: Arrival, at: float) -> Admitted:
        """Let somebody in, or raise NotAdmitted."""
        return self.empower(self.identify(arrival), at)

    def identify(self, arrival: Arrival) -> Identified:
        """Who arrives, whatever they may do, or raise NotAdmitted."""
        try:
            connection = _prove(arrival)
            presented = read_token(arrival.token)
            key = presented.verify(connection)
            self._check_certificate(arrival, key)
        except AuthFabricError as error:
            raise NotAdmitted("", f"is refused: {error}") from None
        return Identified(key, presented.chain)

    def empower(self, who: Identified, at: float) -> Admitted:
        """Let somebody in by what they present, or raise NotAdmitted."""
        try:
            proved = self.prove(who.chain, who.key, at)
        except AuthFabricError as error:
            raise NotAdmitted(str(who.key), f"is refused: {error}") from None
        return self._admitted(who.key, proved, at)

    def prove(self, chain: bytes, key: PublicKey, at: float) -> list[Reduced]:
        """All that a chain proves of this key. Raises ChainRefused or MalformedCertificate if that is nothing."""
        proved, refused = [], list[AuthFabricError]()
        for each in self._completed(chain):
            try:
                reduced = self.verifier.verify(each, at)
                if reduced.capability.subject != key:
                    problem = f"empowers `{reduced.capability.subject}`, and `{key}` presents it"
                    raise ChainRefused(len(reduced.links), Fault.NOT_THE_HOLDER, problem)
                proved.append(reduced)
            except AuthFabricError as error:
                refused.append(error)
        if not proved:
            raise refused[0]
        return proved

    def accept(self, notice: Notice, at: float) -> None:
        """Heed a revocation from now on. Raises InvalidSignature."""
        self.verifier.accept(notice, at)
        self._revoked.update(mark(each.id, notice.issuer) for each in notice.revoked)

    def forget(self, at: float) -> None:
        """Drop revocations of what has expired by now, as far as they take room from others."""
        known = self.verifier.revocations
        known.forget(at)
        self._revoked = {mark(id_, issuer) for issuer, ids in known.revoked.items() for id_ in ids}

    def is_root(self, key: PublicKey) -> bool:
        """Whether a key is a root: the service's, an owner's, or one that members trust."""
        if key == self._service or key in self.trusted or self.verifier.owners.root(key) is not None:
            return True
        return bool(self._held_by(key))

    def check_revoker(self, key: PublicKey, chain: bytes, at: float) -> None:
        """Raise an AuthFabricError unless a chain from an owner names a key that could take back something of it.

        Whoever may pass on what the chain proves will be the issuer of something.
        """
        refused: AuthFabricError | None = None
        for each in self._completed(chain) if chain else ():
            try:
                reduced = self.verifier.verify(each, at)
            except AuthFabricError as error:
                refused = refused or error
                continue
            capability = reduced.capability
            if capability.delegate and capability.subject == key:
                return
            if any(key in link.revokers for link in reduced.links):
                return
        raise refused or ChainRefused(0, Fault.NOT_THE_HOLDER, f"names nothing that `{key}` could take back")

    def revoked(self, marks: Iterable[bytes]) -> bool:
        """Whether anything that these marks stand for was taken back."""
        return not self._revoked.isdisjoint(marks)

    def _completed(self, chain: bytes) -> list[bytes]:
        certificates = decode_chain(chain)
        if not certificates:
            return [chain]
        if held := self._held_by(certificates[0].issuer):
            return [encode_chain((*each, *certificates)) for each in held]
        if certificates[0].issuer == self._service:
            raise ChainRefused(1, Fault.NOT_AN_OWNER, "comes from this service, which holds nothing yet")
        return [chain]

    def _held_by(self, key: PublicKey) -> list[tuple[Certificate, ...]]:
        """The holdings that end with a key."""
        return [each for each in self.holdings if each[-1].unverified().subject == key]

    def _check_certificate(self, arrival: Arrival, key: PublicKey) -> None:
        if not self.rules.needs_certificate:
            return
        if not arrival.certificate or certified_key(arrival.certificate) != key:
            raise ChainRefused(
                0, Fault.NOT_THE_HOLDER, "comes over a link that is not certified for its holder"
            )

    def _admitted(self, key: PublicKey, proved: Sequence[Reduced], at: float) -> Admitted:
        carried = self.carried(subjects.place(key))
        allowed = reduce(Permissions.union, (self._permissions(each, at, carried) for each in proved))
        if not allowed.publish:
            raise NotAdmitted(str(key), "is refused: nothing it presents lets it connect now")
        until = min(_ends(each, at, at + self.rules.session_seconds, self.verifier) for each in proved)
        links = (link for each in proved for link in each.links)
        marks = dict.fromkeys(mark(id_, by) for link in links for by in link.revokers for id_ in link.ids)
        carries = any(
            grant.allows(Right.CARRY) for each in proved for grant in each.capability.authority.grants
        )
        return Admitted(key, tuple(marks), allowed, until, carried.mark if carries else "")

    def _permissions(self, proved: Reduced, at: float, carried: Carried) -> Permissions:
        usable = [grant for grant in proved.capability.authority.grants if self._usable(proved, grant, at)]
        return permissions(proved.capability, usable, self.domains, carried)

    def _usable(self, proved: Reduced, grant: Grant, at: float) -> bool:
        """Whether its hours are now; and connecting uses up what a grant to connect allows of that."""
        if not grant.allows(Right.CONNECT):
            return all(window.holds(at) for window in grant.windows)
        only = replace(proved.capability, authority=Authority((grant,)))
        name = grant.resource.pattern
        try:
            spent = permit(only, Use(Right.CONNECT, name, at), self._spent.get(only.subject, {})).spent
        except UseRefused:
            return False
        if spent:
            self._spent[only.subject] = spent
        return True


def mark(id_: bytes, revoker: PublicKey) -> bytes:
    """A digest of the id of a certificate or key, and of who may revoke it."""
    return hashlib.blake2b(id_ + revoker.raw, digest_size=_MARK_BYTES).digest()


def write_label(key: PublicKey, marks: Iterable[bytes], carried: str = "") -> str:
    """What a server shows of a connection to its operators: whose it is, and on which certificates it rests."""
    words = [str(key), *(base64.b64encode(each).decode() for each in marks)]
    return " ".join([*words, f"{CARRIED_MARK}{carried}"] if carried else words)


@lru_cache(65_536)
def read_label(label: str) -> tuple[str, frozenset[bytes]]:
    """The key and the marks that a label has; no marks if it is not one of ours."""
    key, *marks = label.split(" ")
    try:
        marked = (each for each in marks if not each.startswith(CARRIED_MARK))
        return key, frozenset(base64.b64decode(each, validate=True) for each in marked)
    except binascii.Error:
        return key, frozenset()


def _prove(arrival: Arrival) -> PublicKey:
    """The connection key, which has signed the server's nonce."""
    try:
        key = PublicKey.parse(arrival.key)
    except InvalidKey:  # what a stranger wrote is not for the log
        raise InvalidSignature from None
    text = arrival.signature.replace("-", "+").replace("_", "/")  # clients write it in either alphabet
    try:
        signature = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except binascii.Error:
        raise InvalidSignature from None
    if not arrival.nonce:
        raise InvalidSignature
    key.verify(signature, arrival.nonce.encode())
    return key


def _ends(proved: Reduced, at: float, latest: float, verifier: Verifier) -> float:
    """When it must be looked at again: it expires, a list it needs grows old, or an hour begins or ends."""
    capability = proved.capability
    ends = [latest, _next_hour(capability, at, latest)]
    for validity in (link.validity for link in proved.links):
        if validity.end is not None:
            ends.append(validity.end)
        for recheck in validity.rechecks:
            age = verifier.revocations.age(recheck.key, at) or 0.0
            ends.append(at + recheck.seconds - age)
    return min(ends)


def _next_hour(capability: Capability, at: float, latest: float) -> float:
    """The next minute at which a window of the capability opens or closes."""
    windows = {window for grant in capability.authority.grants for window in grant.windows}
    now = [window.holds(at) for window in windows]
    minute = (at // _MINUTE + 1) * _MINUTE
    while windows and minute < latest and [window.holds(minute) for window in windows] == now:
        minute += _MINUTE
    return min(minute, latest) if windows else latest
