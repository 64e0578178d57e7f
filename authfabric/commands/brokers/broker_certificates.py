"""The certificates of `authfabric broker serve`, read from files and folders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from authfabric.files import FileRefused, read_encoded, read_file
from authz import PublicKey
from authz.errors import InvalidKey
from authz.spki import Certificate, encode_chain, parse_chain
from pep.trust import read_keys
from pubsub_core.server import Certificates


def read_certificates(
    broker: PublicKey,
    clients: Iterable[str],
    vouches: Iterable[Path],
    sealed: Iterable[str],
    blanket: Path | None,
) -> Certificates:
    """What the options of a broker say at this moment. Raises FileRefused, InvalidKey, InvalidCapability."""
    passed = read_file(blanket, parse_chain) if blanket is not None else ()
    chains = {name: read_file(file, parse_chain) for text in sealed for name, file in _capabilities(text)}
    return Certificates(
        _clients(clients),
        tuple(read_encoded(file) for path in vouches for file in _files(path, ".vouch")),
        {name: encode_chain(_passed_on(chain, passed, broker)) for name, chain in chains.items()},
    )


def _clients(texts: Iterable[str]) -> dict[str, frozenset[PublicKey]]:
    """The keys that sign for each domain."""
    keys: dict[str, frozenset[PublicKey]] = {}
    for text in texts:
        domain, equals, key = text.partition("=")
        if not (domain and equals and key):
            raise InvalidKey(
                f"`--clients {text}` must be DOMAIN=KEY: the domain, and the key that signs its credentials"
            )
        keys[domain] = keys.get(domain, frozenset()) | read_keys([key])
    return keys


def _capabilities(text: str) -> Iterator[tuple[str, Path]]:
    """The types that an option names, each with the file of its capability."""
    name, equals, file = text.partition("=")
    if equals:
        yield name, Path(file)
    elif Path(text).is_dir():
        yield from ((each.stem, each) for each in _files(Path(text), ".cap"))
    else:
        problem = (
            "must be TYPE=FILE, with the capability for the type in the file, or a folder of TYPE.cap files"
        )
        raise FileRefused(Path(text), problem)


def _files(path: Path, ending: str) -> Sequence[Path]:
    """A file, or those in a folder."""
    return sorted(path.glob(f"*{ending}")) if path.is_dir() else [path]


def _passed_on(
    chain: Sequence[Certificate], passed: Sequence[Certificate], broker: PublicKey
) -> Sequence[Certificate]:
    """A chain that leads to the broker: what its domain was granted, and then what the domain passes on."""
    end = chain[-1].unverified().subject
    if end != broker and passed and passed[0].unverified().issuer == end:
        return (*chain, *passed)
    return chain
