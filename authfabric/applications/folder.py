"""The folder of an application: its keys, and what they have signed, in files that other commands read and write."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from time import time

from authfabric.applications.document import Application, BrokerSpec, ClientSpec, TypeSpec
from authfabric.files import read_encoded, read_file, read_type, replace_file
from authfabric.terminal import passphrase
from authz import Identity
from authz.spki import Capability, Certificate, Validity, parse_authority, parse_chain, unparse_chain
from bus.identity import create_key, data_folder, load_key
from pubsub_core.client import ProfileFile, profile_path, read_profile_file
from pubsub_core.key_groups import Appointment, appointments
from pubsub_core.trust import ALL, Credential, issue, read_credential, read_vouch, vouch
from pubsub_core.types import SignedType

LASTS = 90 * 86_400.0
"""Seconds for which vouches, appointments, capabilities and credentials are given."""
RENEWED = LASTS / 3
"""What ends sooner than in so many seconds is given anew."""
EARLIER = 60.0
"""Seconds by which a capability begins before it is given: clocks differ a little."""


def usual_folder(name: str) -> Path:
    """Where the keys of an application are kept, unless told otherwise."""
    return data_folder() / "applications" / name


class ApplicationFolder:
    """The keys of an application, and what they have signed."""

    def __init__(self, path: Path, application: Application) -> None:
        self.path = path
        self.application = application

    # Keys

    def owner_file(self, name: str) -> Path:
        return self.path / "owners" / f"{name}.key"

    def broker_file(self, name: str) -> Path:
        return self.path / "brokers" / f"{name}.key"

    @property
    def manager_file(self) -> Path:
        return self.path / "manager.key"

    def owner(self, name: str) -> Identity:
        return load_key(self.owner_file(name), passphrase.known)

    def broker(self, name: str) -> Identity:
        return load_key(self.broker_file(name), passphrase.known)

    def manager(self) -> Identity:
        return load_key(self.manager_file, passphrase.known)

    @property
    def issuer(self) -> Identity:
        """Who signs the credentials of clients."""
        return self.owner(self.application.owner)

    # What was signed

    def type_file(self, name: str) -> Path:
        return self.path / "types" / f"{name}.type"

    def signed_type(self, name: str) -> SignedType | None:
        file = self.type_file(name)
        return read_type(file) if file.exists() else None

    def vouch_file(self, broker: str, owner: str) -> Path:
        return self.path / "brokers" / f"{broker}.{owner}.vouch"

    def capability_file(self, broker: str, type_: str) -> Path:
        return self.path / "brokers" / f"{broker}.{type_}.cap"

    def appointment_file(self, type_: str) -> Path:
        return self.path / "types" / f"{type_}.appointment"

    @property
    def keep_file(self) -> Path:
        return self.path / "keep.yaml"

    # What is still good

    def former_brokers(self) -> list[str]:
        """Brokers that were made keys here, and that the application no longer has."""
        made = sorted(each.stem for each in (self.path / "brokers").glob("*.key"))
        return [each for each in made if each not in self.application.brokers]

    def vouchers(self, broker: str) -> list[str]:
        """The owners whose word for a broker is here."""
        return [each.name.split(".")[1] for each in self._said_for(broker) if each.suffix == ".vouch"]

    def capabilities(self, broker: str) -> list[tuple[str, tuple[Certificate, ...]]]:
        """What a broker was given, and the name of the owner who gave it."""
        owners = {self.owner(each.stem).public: each.stem for each in (self.path / "owners").glob("*.key")}
        chains = [read_file(each, parse_chain) for each in self._said_for(broker) if each.suffix == ".cap"]
        return [(owners[chain[-1].unverified().issuer], chain) for chain in chains]

    def forget(self, broker: str) -> None:
        """Delete a broker's key, and what was said for it."""
        for each in self._said_for(broker):
            each.unlink()

    def _said_for(self, broker: str) -> list[Path]:
        return sorted((self.path / "brokers").glob(f"{broker}.*"))

    def is_vouched(self, broker: str, owner: str) -> bool:
        """Whether an owner's word for a broker is there, about its present key, and holds for long enough."""
        file = self.vouch_file(broker, owner)
        if not (file.exists() and self.broker_file(broker).exists()):
            return False
        said = read_vouch(read_encoded(file))
        return said.broker == str(self.broker(broker).public) and said.until > time() + RENEWED

    def is_appointed(self, type_: str) -> bool:
        file, signed = self.appointment_file(type_), self.signed_type(type_)
        if not file.exists() or signed is None:
            return False
        said = appointments.read(read_encoded(file)).value
        return (said.type, said.manager) == (
            signed.definition.id,
            str(self.manager().public),
        ) and said.until > time() + RENEWED

    def capability(self, broker: str, type_: str) -> tuple[Certificate, ...]:
        file = self.capability_file(broker, type_)
        return read_file(file, parse_chain) if file.exists() else ()

    def is_capable(self, broker: BrokerSpec, type_: TypeSpec) -> bool:
        """Whether a broker has a capability for exactly what it needs the keys of."""
        chain = self.capability(broker.name, type_.name)
        if not chain or not self.broker_file(broker.name).exists():
            return False
        held = chain[-1].unverified()
        lasts = held.validity.end is not None and held.validity.end > time() + RENEWED
        wanted = parse_authority(key_authority(broker, type_))
        return lasts and held.authority == wanted and held.subject == self.broker(broker.name).public

    def profile(self, client: str) -> ProfileFile | None:
        path = profile_path(client)
        return read_profile_file(path) if path.exists() else None

    def is_profiled(self, client: ClientSpec) -> bool:
        """Whether a client's profile says what it should, with a credential that holds for long enough."""
        file = self.profile(client.name)
        if file is None or not self.owner_file(self.application.owner).exists():
            return False
        given = read_credential(base64.b64decode(file.credential))
        return (
            given.signer == self.issuer.public
            and given.value.attributes == dict(client.attributes)
            and given.value.until > time() + RENEWED
            and (file.brokers, file.types, file.trust)
            == (client.brokers, tuple(client.subscribes), self.owner_keys())
        )

    def owner_keys(self) -> tuple[str, ...]:
        return tuple(str(self.owner(each).public) for each in self.application.owners)

    # Making

    def make_key(self, file: Path) -> None:
        """A key in a file for this user alone, and the public one beside it."""
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        identity = Identity.generate()
        create_key(file, identity, None)
        replace_file(file.with_suffix(".pub"), f"{identity.public}\n")

    def vouch(self, broker: str, owner: str) -> None:
        now = time()
        word = vouch(self.broker(broker).public, [ALL], now + LASTS, self.owner(owner), now)
        _write_encoded(self.vouch_file(broker, owner), word)

    def appoint(self, type_: TypeSpec) -> None:
        signed, now = self.signed_type(type_.name), time()
        assert signed is not None
        said = Appointment(signed.definition.id, str(self.manager().public), now + LASTS, now)
        _write_encoded(self.appointment_file(type_.name), appointments.sign(said, self.owner(type_.owner)))

    def empower(self, broker: BrokerSpec, type_: TypeSpec) -> None:
        """Let a broker have the keys of what it needs of a type."""
        owner, now = self.owner(type_.owner), time()
        authority = parse_authority(key_authority(broker, type_))
        validity = Validity(int(now - EARLIER), int(now + LASTS))
        right = Capability(owner.public, self.broker(broker.name).public, False, authority, validity)
        replace_file(self.capability_file(broker.name, type_.name), unparse_chain((right.sign(owner),)))

    def issue_profile(self, client: ClientSpec) -> ProfileFile:
        """A client's profile, with the key that it has, or a new one."""
        known = self.profile(client.name)
        pem = known.key if known is not None else Identity.generate().to_pem().decode()
        key = Identity.from_pem(pem.encode()).public
        domain = self.application.domain
        given = Credential(str(key), client.name, domain, time() + LASTS, dict(client.attributes))
        return ProfileFile(
            client.name,
            client.brokers,
            pem,
            base64.b64encode(issue(given, self.issuer)).decode(),
            domain,
            self.owner_keys(),
            types=tuple(client.subscribes),
            publishes=tuple(client.publishes),
            application=self.application.name,
        )


def key_authority(broker: BrokerSpec, type_: TypeSpec) -> str:
    """What lets a broker have keys of a type: all, or of some attributes."""
    names = broker.reads.get(type_.name, ())
    listed = "" if set(names) == set(type_.sealed) else f"\nattributes: {', '.join([*type_.clear, *names])}"
    return f"type: {type_.name}\naction: publish|subscribe{listed}"


def stamp(data: bytes) -> str:
    """What tells what stands in a file from anything else."""
    return hashlib.sha256(data).hexdigest()[:16]


def _write_encoded(file: Path, data: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    replace_file(file, base64.encodebytes(data).decode())
