"""Key rotation of a domain: a new key takes over, and the old one stays valid for a while.

In between, whoever was granted something before is let in as ever, and is to be granted anew. At the end nothing
counts any more that rests on the key of before. One key is exchanged at a time: the service's, which stands on every
node, rests on the domain's own; that of the domain is what everybody believes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from authz import Identity, PublicKey
from authz.spki import Certificate, Notice, unparse_chain
from bus.identity import is_locked, lock, read_private, write_private
from pdp.access.domain import Domain
from pdp.access.domain_store import DomainFolder, DomainRefused, Passphrase

_BEFORE = "holdings/own.before.cap"


def begin_rotation(
    folder: DomainFolder, which: Literal["domain", "service"], passphrase: Passphrase, at: float
) -> tuple[DomainFolder, Domain]:
    """Let a new key count beside the one of now. Raises DomainRefused if one is being exchanged already."""
    if folder.file.exchanged:
        raise DomainRefused(folder.path, f"is exchanging its {folder.file.exchanged} key: finish that first")
    domain, fresh = folder.domain(passphrase), Identity.generate()
    before = domain.owner if which == "domain" else domain.service
    newer = (
        replace(domain, owner=fresh, before=before) if which == "domain" else replace(domain, service=fresh)
    )
    _keep(folder, which, fresh, passphrase)
    chains, blanket = folder.chains("holdings"), newer.blanket(at)
    lent = newer.lending_to_before(at)
    folder.write(_BEFORE, unparse_chain(chains["own"] if lent is None else [lent]))
    for name, chain in chains.items():
        if which == "service" or name == "own":
            folder.write(f"holdings/{name}.cap", unparse_chain((*chain[:-1], blanket)))
    trust = set(folder.file.trust)
    if which == "domain":
        trust.add(str(before.public))
        folder.write_owner(fresh.public)
    folder.servers.certify(newer, at)
    _revoke_anew(folder, fresh, before.public, at)
    granted = (*folder.members.values(), *(folder.admitted_domains.values() if which == "domain" else ()))
    changed = folder.changed(
        owner=str(newer.owner.public),
        service=str(newer.service.public),
        trust=tuple(sorted(trust)),
        exchanged=which,
        before=str(before.public),
        behind=tuple(_id(each) for each in granted),
    )
    return changed, newer


def revokers(folder: DomainFolder, issuer: PublicKey) -> tuple[PublicKey, ...]:
    """The keys that take back what one of the domain's has issued: while it is being exchanged, both that count."""
    file = folder.file
    newer = PublicKey.parse(file.owner if file.exchanged == "domain" else file.service)
    both = (PublicKey.parse(file.before), newer) if file.exchanged else ()
    return both if issuer in both else (issuer,)


def revoke_before(folder: DomainFolder, domain: Domain, at: float) -> Notice | None:
    """The revocation of the previous key by the domain's own, kept in the folder; None if none is being rotated.

    The domain's previous key is revoked by its new one, which has lent it what it held meanwhile.
    """
    if not folder.file.exchanged:
        return None
    return folder.revoke(domain.owner, PublicKey.parse(folder.file.before), at)


def finish_rotation(folder: DomainFolder, domain: Domain, at: float) -> tuple[DomainFolder, Domain]:
    """End the validity of the previous key. Raises DomainRefused if no rotation is under way."""
    file = folder.file
    if not file.exchanged:
        raise DomainRefused(folder.path, "exchanges no key: begin with `authfabric domain rotate`")
    newer = replace(domain, before=None)
    revoke_before(folder, domain, at)
    if file.exchanged == "domain":
        folder.servers.replace_secret(domain.link_secret, newer.link_secret)
        folder.servers.certify(newer, at)
    _strike_off(folder, PublicKey.parse(file.before))
    (folder.path / _BEFORE).unlink(missing_ok=True)
    trust = tuple(each for each in file.trust if each != file.before)
    changed = folder.changed(trust=trust, exchanged="", before="", behind=())
    (folder.path / file.keys[file.before]).unlink(missing_ok=True)
    return changed, newer


def replace_links(folder: DomainFolder, domain: Domain) -> Domain:
    """End the validity of what servers show each other. They are to be certified anew."""
    newer = replace(domain, links=domain.links + 1)
    folder.servers.replace_secret(domain.link_secret, newer.link_secret)
    folder.changed(links=newer.links)
    return newer


def _keep(folder: DomainFolder, which: str, fresh: Identity, passphrase: Passphrase) -> None:
    """Put the new key into its file, and the one of now beside it."""
    file, kept = folder.path / f"{which}.key", folder.path / f"{which}.before.key"
    own = read_private(file)
    write_private(kept, own, replace=True)
    write_private(file, lock(fresh, passphrase() if is_locked(own) else None), replace=True)


def _revoke_anew(folder: DomainFolder, issuer: Identity, before: PublicKey, at: float) -> None:
    """Revoke by one key all keys that the one before has revoked: whoever is out stays out."""
    end = f"-{before}.txt"
    for each in sorted((folder.path / "revoked").glob(f"*{end}")):
        folder.revoke(issuer, PublicKey.parse(each.name.removesuffix(end)), at)


def _strike_off(folder: DomainFolder, issuer: PublicKey) -> None:
    """Take what a key has issued off the lists: it counts no more."""
    for kind in ("members", "domains", "replaced"):
        for name, chain in folder.chains(kind).items():
            if chain[-1].unverified().issuer == issuer:
                (folder.path / kind / f"{name}.cap").unlink(missing_ok=True)


def _id(certificate: Certificate) -> str:
    return certificate.id.hex()
