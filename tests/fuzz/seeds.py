"""Well-formed inputs to begin fuzzing from: `python -m tests.fuzz.seeds` writes them into the corpus."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import msgspec

from authfabric.backup import archive
from authz import Entity, Identity, Request
from authz.authority.introduction import Introduction
from authz.crypto.seal import _decode_signed
from authz.release import Release, sign_release
from authz.spki import Capability, Notice, Validity, encode_chain, parse_authority, unparse_chain
from authz.spki.capability import encode
from authz.spki.text import unparse_notice
from bus.identity.credentials import Presented
from bus.nats.access_client import RevocationRequest
from bus.wire.envelope import pack
from bus.wire.messages import Questions
from pdp.bundle.bundle import Bundle, File
from pubsub_core.carriage.records import TOLD, Told
from pubsub_core.events.event import Event
from pubsub_core.events.event import encode as encode_event
from pubsub_core.messages import CALL, Sent, SignedCall, Subscribe
from pubsub_core.trust.credential import Credential, issue
from pubsub_core.trust.vouches import ALL, vouch
from pubsub_core.types.signature import SignedType
from sdp_cache.snapshots.snapshot import SIGNATURE_BYTES
from sdp_cache.snapshots.writer import write_snapshot
from tests.fuzz import gateway
from tests.fuzz.__main__ import CORPUS
from tests.fuzz.targets import _NET, _PAIR, KEY, NOW, TARGETS
from tests.pubsub_core.kinds import PITO
from tests.pubsub_core.net import KIND, SPEED
from tests.sdp_cache.snapshots.test_snapshot import small

OWNER, HOLDER = Identity.from_seed(bytes(32)), Identity.from_seed(b"h" * 32)
GRANTS = 'network: shop\naction: connect\ntype: a.*\naction: publish\nattributes: x = "y", z\nrate: 9 per 5 seconds'
ROLES = "a(x), [x != subject.id and context.mode != 3] |- b(x)"
POLICIES = """
- {uid: open, effect: allow, targets: {subject_id: "*"}, rules: {subject: {"$.role": {condition: Equals, value: "a"}}}}
"""
FILTERS = (
    r"speed > 30 AND (numberplate MATCHES '^A\w+' OR numberplate LIKE 'B*') AND NOT numberplate IN ('x', 'y')",
    "speed BETWEEN 1 AND 2 OR numberplate STARTS WITH 'A' AND speed IS NOT NULL",
)
RULE = "RESTRICT DELIVERY OF ward.reading WHERE treats(user, patient) FILTER pulse > 3 AND nurse != 'x'"
PLAIN = {
    "string": "a",
    "integer": 1,
    "float": 0.5,
    "boolean": True,
    "geo": {"lat": 1.5, "lon": 2},
    "other": [{}],
}
TEXTS = {"integer": "1", "float": "0.5", "boolean": "true", "timestamp": "2030-01-31T08:00:00Z", "geo": "1,2"}
CLOUD = {"specversion": "1.0", "id": "1", "source": "/a", "type": "b"}
PREDICATE = 'event.a == "x" and not (event.b in [1, 2] or exists event.c.d) and event.e starts with "y"'


def _content(data: bytes) -> bytes:
    """What is signed, without the signature."""
    return _decode_signed(data).content


def seeds() -> Mapping[str, tuple[tuple[str, bytes], ...]]:
    """For each target, inputs with the name of the reader that they are for."""
    link = Capability(
        OWNER.public, HOLDER.public, True, parse_authority(GRANTS), Validity(0, 4_000_000_000)
    ).sign(OWNER)
    notice, chain = Notice.event(OWNER, link, 1), encode_chain([link])
    body = {
        "server_id": {"id": "N"},
        "user_nkey": "U",
        "client_info": {"id": 1},
        "connect_opts": {"nkey": "U"},
    }
    event = Event(KIND.id, KIND.version, KEY.public.raw, 1000.0, 1, {SPEED: 5.0})
    request = Request.of(Entity("ann", {"role": "a"}), Entity("/o"), "read", {"at": [1, {"b": None}]})
    bundle = Bundle.of([File("a.yaml", POLICIES)])
    said = {subject.split(".")[4]: data for subject, data in _NET.kept.items()}
    _PAIR.publish(_PAIR.bundle({"speed": 5.0}))
    (parcel,) = _PAIR.parcels()
    call = SignedCall(Subscribe(1, "x", FILTERS[0]), "north", NOW, b"n" * 16)
    told = Told(SignedType.sign(KIND, PITO).encode())
    release = Release("shop", 1, bundle.hash, (bundle.hash,), NOW)
    credential = Credential(str(KEY.public), "ann", "met", NOW + 9, {"a": 1})
    following = gateway.send("search/action", gateway.page(limit=1))["page"]["next_token"]
    head = msgspec.msgpack.encode(archive._Header((archive.Wrapped(b"box", b"salt"),)))
    manifest = archive.Manifest(NOW, "1", "shop", {}, {"files/a": archive.Entry("00", 1)})
    return {
        "certificates": (
            ("chain", chain),
            ("certificate", chain),
            ("notice", encode(notice)),
            ("text", unparse_chain([link]).encode()),
            ("text", unparse_notice(notice).encode()),
            ("token", Presented.of(HOLDER, chain).encode().encode()),
            ("arrival", json.dumps({"nats": body}).encode()),
        ),
        "envelopes": (
            ("unpack_questions", pack(Questions([request]))[1:]),
            ("unpack_request", pack(request)[1:]),
            ("unpack_revocation", pack(RevocationRequest(encode(notice), chain))[1:]),
            ("introduction", Introduction.of(KEY, (link,), NOW).encode()),
            ("release", _content(sign_release(release, KEY))),
        ),
        "calls": (("call", _content(CALL.sign(call, KEY))), ("credential", issue(credential, KEY))),
        "events": (
            ("publication", encode_event(event)),
            ("event", encode_event(event)),
            ("item", encode_event(event)),
            ("item", msgspec.msgpack.encode(Sent(b"ticket"))),
        ),
        "plain": (
            ("message", gateway.encoded(PLAIN)),
            ("message", gateway.encoded(TEXTS)),
            ("cloud event", gateway.encoded(CLOUD | {"data": PLAIN})),
        ),
        "gateway": (
            ("evaluation", gateway.encoded(gateway.QUESTION)),
            (
                "evaluations",
                gateway.encoded(gateway.QUESTION | {"evaluations": [{}, {"subject": gateway.THING}]}),
            ),
            ("subjects", gateway.page(limit=1)),
            ("resources", gateway.page(limit=1)),
            ("actions", gateway.page(limit=1)),
            ("page", following.encode()),
            ("bearer", gateway.token(gateway.HEADER, gateway.CLAIMS)),
            ("claims", gateway.CLAIMS),
            ("header", gateway.HEADER),
            ("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ),
        "hellos": (
            ("hello", _content(said["hello"])),
            ("type", _content(TOLD.sign(told, KEY))),
            ("vouch", vouch(KEY.public, [ALL], NOW, OWNER)),
            ("parcel", msgspec.msgpack.encode(parcel)),
        ),
        "types": (("type", SignedType.sign(KIND, PITO).encode()),),
        "filters": (*(("filter", each.encode()) for each in FILTERS), ("fluent", b"treats('ann', 3)")),
        "rules": (
            ("rules", RULE.encode()),
            ("term", b"lookup('staff', user, 'ward')"),
            ("predicate", PREDICATE.encode()),
            ("roles", ROLES.encode()),
        ),
        "policies": (("policies", POLICIES.encode()),),
        "backups": (
            ("head", len(head).to_bytes(4, "big") + head),
            ("part", msgspec.msgpack.encode(archive.Part("files/a", b"x"))),
            ("manifest", _content(archive.MANIFEST.sign(manifest, KEY))),
        ),
        "bundles": (("bundle", bundle.pack()), ("file", msgspec.msgpack.encode(bundle.pack()))),
        "snapshots": (("snapshot", write_snapshot(small(), KEY)[:-SIGNATURE_BYTES]),),
    }


def inputs() -> Iterator[tuple[str, str, bytes]]:
    """For each seed its target, its name, and the input: the byte that chooses the reader, and the rest."""
    for target, several in seeds().items():
        names = list(TARGETS[target])
        for number, (name, data) in enumerate(several):
            yield target, f"{number}-{name}", bytes([names.index(name)]) + data


def write() -> None:
    for target, name, data in inputs():
        (CORPUS / target).mkdir(parents=True, exist_ok=True)
        (CORPUS / target / name).write_bytes(data)


if __name__ == "__main__":
    write()
