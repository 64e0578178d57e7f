"""A domain in a folder: its keys, for its operator's eyes only, and everything that was issued and granted.

domain.json          its name and its servers
domain.key           owns what the domain owns; needed to admit other domains and to certify servers, and then only
service.key          the access control service's
*.before.key         what stood there before, while it counts beside the new one: see rotation
owners.txt           which key owns what
holdings/NAME.cap    the chains that end with the service's key
members/NAME.cap     what the service has granted, and to whom
replaced/NAME.N.cap  what was granted under a name before, to other keys: not renewed, and still to be revoked
domains/NAME.cap     the domains that were admitted
revoked/KEY-BY.txt   the revocation of each key that was revoked, and by which of the domain's keys
networks/NAME.json   the networks that were joined
tls/, *.conf         what its NATS servers are given: see server_store
"""

from __future__ import annotations

import itertools
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from authz import AuthFabricError, Identity, PublicKey
from authz.spki import Certificate, Notice, Owners, Verifier, encode_chain, parse_chain, unparse_chain
from authz.spki.text import parse_notice, parse_owners, unparse_notice
from bus.identity import (
    Credentials,
    CredentialsFile,
    Found,
    Lifetime,
    Subject,
    certificate_end,
    client_context,
    create_key,
    load_key,
    lock,
)
from pdp.access.control import AccessControl, AccessRules
from pdp.access.domain import YEAR, Domain, Issuer, JoinRequest, Membership, check_membership
from pdp.access.server_store import LOCALHOST, ServerFiles, write_whole

Passphrase = Callable[[], str]


class DomainRefused(AuthFabricError):
    """A domain's folder that is missing, in the way, or not as it should be: `problem` says what would be right."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"`{path}` {problem}")
        self.path = path
        self.problem = problem


class DomainFile(msgspec.Struct, frozen=True):
    """What everybody in the domain knows."""

    name: str
    owner: str
    service: str
    url: str = ""
    """Where its servers are, as its members reach them."""
    links: int = 1
    """As of `Domain`."""
    trust: tuple[str, ...] = ()
    """The keys that sign its policies and say who may decide, besides its own."""
    exchanged: Literal["", "domain", "service"] = ""
    """Which of its two keys is being exchanged."""
    before: str = ""
    """The key of before, while it counts beside the new one."""
    behind: tuple[str, ...] = ()
    """The ids of what was granted before, and rests on it."""

    @property
    def keys(self) -> dict[str, str]:
        """The files of the keys that count, by their public keys."""
        kept = {self.before: f"{self.exchanged}.before.key"} if self.exchanged else {}
        return {self.owner: "domain.key", self.service: "service.key", **kept}


@dataclass(frozen=True, slots=True)
class DomainFolder:
    """A domain as it stands on disk."""

    path: Path
    file: DomainFile

    @classmethod
    def create(
        cls,
        path: Path,
        name: str,
        at: float,
        passphrase: str | None,
        hosts: Iterable[str] = (),
        url: str = "",
    ) -> DomainFolder:
        """Make a domain that owns everything in its own network. Raises DomainRefused or KeyFileRefused."""
        if (path / "domain.json").exists():
            raise DomainRefused(path, "holds a domain already: keys are never overwritten")
        for each in ("", "holdings", "members", "domains", "networks", "tls"):
            (path / each).mkdir(parents=True, exist_ok=True, mode=0o700)
        domain = Domain(name, Identity.generate(), Identity.generate())
        create_key(path / "domain.key", domain.owner, passphrase)
        create_key(path / "service.key", domain.service, passphrase)
        file = DomainFile(name, str(domain.owner.public), str(domain.service.public), url)
        folder = cls(path, file)
        folder.write_owner(domain.owner.public)
        folder.write("holdings/own.cap", unparse_chain([domain.blanket(at)]))
        folder.servers.certify(domain, at, (*LOCALHOST, *hosts))
        folder._save(file)  # last: a folder without it is no domain
        return folder

    @classmethod
    def open(cls, path: Path) -> DomainFolder:
        """Raises DomainRefused if there is no domain in the folder."""
        try:
            return cls(path, msgspec.json.decode((path / "domain.json").read_bytes(), type=DomainFile))
        except (FileNotFoundError, NotADirectoryError):
            raise DomainRefused(
                path, "holds no domain: make one with `authfabric domain init FOLDER`"
            ) from None
        except (OSError, msgspec.DecodeError) as error:
            raise DomainRefused(path, f"holds a domain that cannot be read: {error}") from None

    def at_url(self, url: str) -> DomainFolder:
        """The same domain, with its servers there."""
        return self.changed(url=url)

    def trusting(self, keys: Iterable[PublicKey]) -> DomainFolder:
        """The same domain, with these keys as further roots of releases and deciders."""
        return self.changed(trust=tuple(sorted(map(str, keys))))

    def issuer(self, passphrase: Passphrase) -> Issuer:
        return Issuer(self.file.name, load_key(self.path / "service.key", passphrase))

    def domain(self, passphrase: Passphrase) -> Domain:
        owner, file = load_key(self.path / "domain.key", passphrase), self.file
        kept = self.signer(file.before, passphrase) if file.exchanged == "domain" else None
        return Domain(file.name, owner, self.issuer(passphrase).service, file.links, kept)

    def signer(self, key: str, passphrase: Passphrase) -> Identity:
        """The key of the domain that has issued something, by its public key. Raises DomainRefused if it is gone."""
        if key not in self.file.keys:
            raise DomainRefused(
                self.path, f"has exchanged the key `{key}`: what that has issued counts no more"
            )
        return load_key(self.path / self.file.keys[key], passphrase)

    @property
    def behind(self) -> list[str]:
        """Whoever rests on a key that is being exchanged, and is to be granted, admitted or joined anew."""
        old, granted = set(self.file.behind), {**self.members, **self.admitted_domains}
        names = [name for name, certificate in granted.items() if certificate.id.hex() in old]
        return names + [each for each in self.networks if self._is_behind(each)]

    @property
    def owners(self) -> Owners:
        return Owners(parse_owners(self._read("owners.txt"), str(self.path / "owners.txt")))

    @property
    def holdings(self) -> tuple[tuple[Certificate, ...], ...]:
        return tuple(self.chains("holdings").values())

    @property
    def members(self) -> dict[str, Certificate]:
        """What was granted, by the name it was granted under."""
        return {name: chain[-1] for name, chain in self.chains("members").items()}

    @property
    def admitted_domains(self) -> dict[str, Certificate]:
        """What other domains were admitted with, by their names."""
        return {name: chain[-1] for name, chain in self.chains("domains").items()}

    @property
    def domains(self) -> tuple[str, ...]:
        """The names of the domain and of those that it has admitted."""
        return (self.file.name, *self.admitted_domains)

    @property
    def networks(self) -> dict[str, Membership]:
        """The networks of others that the domain has joined."""
        files = sorted((self.path / "networks").glob("*.json"))
        return {each.stem: msgspec.json.decode(each.read_bytes(), type=Membership) for each in files}

    def control(self, rules: AccessRules = AccessRules()) -> AccessControl:
        """What decides on arrivals, as the folder stands now."""
        service = PublicKey.parse(self.file.service)
        trusted = map(PublicKey.parse, (self.file.owner, *self.file.trust))
        control = AccessControl(Verifier(self.owners), service, self.holdings, rules, self.domains, trusted)
        for notice in self.revocations:
            control.accept(notice, notice.at)
        return control

    def refresh(self, control: AccessControl) -> None:
        """Read the grants and admissions of the domain that have been made since."""
        control.holdings, control.domains = self.holdings, frozenset(self.domains)

    @property
    def servers(self) -> ServerFiles:
        """What the domain's NATS servers are given."""
        return ServerFiles(self.path)

    def tls(self, issuer: Issuer, at: float) -> ssl.SSLContext:
        """How the service itself connects."""
        own = self.certify_member(issuer, issuer.service.public, Lifetime(at, YEAR))
        return client_context(issuer.service, own, self.server_authority)

    @property
    def server_authority(self) -> str:
        """Who certifies the domain's servers; PEM."""
        return self._read("tls/server-ca.pem")

    def grant(self, name: str, certificate: Certificate) -> None:
        """Note what was granted under a name. Raises DomainRefused if the name is taken, or the key was revoked."""
        self._check_not_revoked(certificate)
        if name in self.members and name in self.behind:
            self.replace(name)
        self._write_new(f"members/{_file_name(name)}.cap", unparse_chain([certificate]))

    def forget(self, name: str) -> None:
        """Strike somebody off the list of members."""
        (self.path / "members" / f"{_file_name(name)}.cap").unlink(missing_ok=True)

    def replace(self, name: str) -> None:
        """Let another key have a name. What was granted to the one before lasts until it ends, or is revoked."""
        before = self.path / "members" / f"{_file_name(name)}.cap"
        if before.exists():
            (self.path / "replaced").mkdir(exist_ok=True, mode=0o700)
            numbers = (number for number in itertools.count(1) if not self._replaced(name, number).exists())
            before.rename(self._replaced(name, next(numbers)))

    def replaced(self, name: str) -> list[Certificate]:
        """What was granted under a name before, and not revoked since."""
        return [
            chain[-1] for each, chain in self.chains("replaced").items() if each.rpartition(".")[0] == name
        ]

    @property
    def revocations(self) -> tuple[Notice, ...]:
        """The revocations of keys that were issued anything here."""
        files = sorted((self.path / "revoked").glob("*.txt"))
        return tuple(parse_notice(each.read_text(), str(each)) for each in files)

    def revoke(self, issuer: Identity, key: PublicKey, at: float) -> Notice:
        """Revoke whatever `issuer` issues to a key, and keep that for good: whoever serves this folder heeds it."""
        file = self._revocation(issuer.public, key)
        if file.exists():
            return parse_notice(file.read_text(), str(file))
        notice = Notice.of_key(issuer, key, int(at))
        file.parent.mkdir(exist_ok=True, mode=0o700)
        self.write(f"revoked/{file.name}", unparse_notice(notice))
        return notice

    def strike_off(self, issuer: PublicKey, key: PublicKey) -> None:
        """Take a key off the lists of what was issued, under whatever names it is there."""
        for folder in ("members", "domains", "replaced"):
            for name, chain in self.chains(folder).items():
                capability = chain[-1].unverified()
                if (capability.issuer, capability.subject) == (issuer, key):
                    (self.path / folder / f"{name}.cap").unlink(missing_ok=True)

    def credentials(
        self, issuer: Issuer, identity: Identity, certificate: Certificate, at: float, network: str = ""
    ) -> CredentialsFile:
        """Everything a member needs to connect: to the domain's own network, or to one it has joined."""
        joined = self._joined(network) if network else None
        end = certificate.unverified().validity.end
        lifetime = Lifetime(at, YEAR if end is None else max(end - at, 1))
        own = self.certify_member(issuer, identity.public, lifetime)
        before = self.chains("holdings")[network] if joined else ()
        return CredentialsFile(
            joined.url if joined else self.file.url,
            lock(identity, None).decode(),
            unparse_chain((*before, certificate)),
            own + joined.certificate if joined else own,
            joined.authority if joined else self.server_authority,
            joined.trust if joined else (self.file.owner, *self.file.trust),
            "" if joined else self._read("holdings/own.cap"),
        )

    def in_network(self, issuer: Issuer, at: float, network: str) -> Found:
        """How the service itself connects to a network that the domain has joined."""
        joined, service = self._joined(network), issuer.service
        own = self.certify_member(issuer, service.public, Lifetime(at, YEAR)) + joined.certificate
        chain = encode_chain(self.chains("holdings")[network])
        return Found(joined.url, Credentials(service, chain, client_context(service, own, joined.authority)))

    def certify_member(self, issuer: Issuer, key: PublicKey, lifetime: Lifetime) -> str:
        """A member's TLS certificate, and the one by which the service certifies."""
        return issuer.certify(Subject("member", key), lifetime) + self._read("tls/service.pem")

    def _is_behind(self, network: str) -> bool:
        """Whether a network that was joined has empowered a key of before."""
        return str(self.chains("holdings")[network][-2].unverified().subject) != self.file.owner

    def _joined(self, network: str) -> Membership:
        joined = self.networks.get(network)
        if joined is None:
            raise DomainRefused(self.path, f"has not joined `{network}`: see `authfabric domain join`")
        return joined

    def admitted(self, request: JoinRequest, capability: Certificate, certificate: str) -> Membership:
        """Note that another domain was admitted; returns what it is to be given. Raises DomainRefused."""
        self._check_not_revoked(capability)
        if request.name in self.admitted_domains and request.name in self.behind:
            (self.path / "domains" / f"{_file_name(request.name)}.cap").unlink()
        self._write_new(f"domains/{_file_name(request.name)}.cap", unparse_chain([capability]))
        return Membership(
            self.file.name,
            self.file.url,
            unparse_chain([capability]),
            certificate,
            self.server_authority,
            (self.file.owner, *self.file.trust),
        )

    def join(self, membership: Membership, *, again: bool = False) -> None:
        """Keep what another domain has given, `again` in place of what it gave before. Raises ChainRefused if it is
        not for this one.
        """
        given = parse_chain(membership.capability)
        check_membership(given, PublicKey.parse(self.file.owner))
        own = self.chains("holdings")["own"]
        name = _file_name(membership.network)
        if name in self.networks and (again or self._is_behind(name)):
            for each in (f"holdings/{name}.cap", f"networks/{name}.json"):
                (self.path / each).unlink()
        self._write_new(f"holdings/{name}.cap", unparse_chain((*given, *own)))
        self._write_new(f"networks/{name}.json", msgspec.json.encode(membership).decode())

    @property
    def servers_until(self) -> float:
        """When the servers' certificates end, in Unix time."""
        return certificate_end(self._read("tls/server.pem"))

    def changed(self, **fields: object) -> DomainFolder:
        file = msgspec.structs.replace(self.file, **fields)
        if file != self.file:
            self._save(file)
        return DomainFolder(self.path, file)

    def _save(self, file: DomainFile) -> None:
        self.write("domain.json", msgspec.json.format(msgspec.json.encode(file), indent=2).decode() + "\n")

    def chains(self, folder: str) -> dict[str, tuple[Certificate, ...]]:
        files = sorted((self.path / folder).glob("*.cap"))
        return {each.stem: parse_chain(each.read_text(), str(each)) for each in files}

    def _check_not_revoked(self, certificate: Certificate) -> None:
        capability = certificate.unverified()
        if self._revocation(capability.issuer, capability.subject).exists():
            raise DomainRefused(
                self.path, f"has revoked the key `{capability.subject}`, for good: use a new one"
            )

    def _replaced(self, name: str, number: int) -> Path:
        return self.path / "replaced" / f"{name}.{number}.cap"

    def _revocation(self, issuer: PublicKey, key: PublicKey) -> Path:
        return self.path / "revoked" / f"{key}-{issuer}.txt"

    def _read(self, name: str) -> str:
        try:
            return (self.path / name).read_text()
        except FileNotFoundError:
            told = f": `authfabric domain certify {self.path}` makes it" * name.startswith("tls/")
            raise DomainRefused(self.path, f"lacks `{name}`{told}") from None
        except OSError as error:
            raise DomainRefused(self.path, f"has `{name}`, which cannot be read: {error.strerror}") from None

    def write_owner(self, key: PublicKey) -> None:
        """Let a key own all that the domain owns."""
        self.write("owners.txt", f"owner: {key}\nresource: *\n")

    def write(self, name: str, text: str) -> None:
        write_whole(self.path / name, text)

    def _write_new(self, name: str, text: str) -> None:
        try:
            with (self.path / name).open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            raise DomainRefused(
                self.path / name, "exists already: revoke it first, or use another name"
            ) from None


def _file_name(name: str) -> str:
    """A name that is safe as a file's."""
    if not name or not all(each.isalnum() or each in "-_. " for each in name) or name.startswith("."):
        raise DomainRefused(Path(name), "must be a name of letters, digits, `-`, `_` and `.`")
    return name
