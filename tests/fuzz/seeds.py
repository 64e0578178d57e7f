"""Well-formed inputs to begin fuzzing from: `python -m tests.fuzz.seeds FOLDER`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from authz import Identity
from authz.spki import Capability, Notice, Validity, encode_chain, parse_authority, unparse_chain
from authz.spki.capability import encode
from authz.spki.text import unparse_notice
from bus.credentials import Presented

OWNER, HOLDER = Identity.from_seed(bytes(32)), Identity.from_seed(b"h" * 32)
GRANTS = 'network: shop\naction: connect\ntype: a.*\naction: publish\nattributes: x = "y", z\nrate: 9 per 5 seconds'


def seeds() -> dict[str, bytes]:
    """By the reader they are for: see `READERS` in certificates.py."""
    authority = parse_authority(GRANTS)
    link = Capability(OWNER.public, HOLDER.public, True, authority, Validity(0, 4_000_000_000)).sign(OWNER)
    notice = Notice.event(OWNER, link, 1)
    chain = encode_chain([link])
    body = {
        "server_id": {"id": "N"},
        "user_nkey": "U",
        "client_info": {"id": 1},
        "connect_opts": {"nkey": "U"},
    }
    return {
        "0-chain": chain,
        "1-certificate": chain,
        "2-notice": encode(notice),
        "3-text": unparse_chain([link]).encode(),
        "3-notice": unparse_notice(notice).encode(),
        "4-token": Presented.of(HOLDER, chain).encode().encode(),
        "5-arrival": json.dumps({"nats": body}).encode(),
    }


def write(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in seeds().items():
        (folder / name).write_bytes(bytes([int(name[0])]) + data)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
