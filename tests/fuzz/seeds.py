"""Well-formed inputs to begin fuzzing from: `python -m tests.fuzz.seeds` writes them into the corpus."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator, Mapping

import msgspec

from authfabric.backup import archive
from authz import Decision, Entity, Identity, Reason, Request
from authz.authority import Statement
from authz.authority.introduction import Introduction
from authz.crypto.seal import _decode_signed
from authz.predicate import Equal, Path, Relate
from authz.release import Preparation, Release, sign_release
from authz.spki import Capability, Notice, Validity, encode_chain, parse_authority, unparse_chain
from authz.spki.capability import encode
from authz.spki.text import unparse_notice
from bus.audit.records import AuditRecord, SignedHead
from bus.feeds.held_releases_service import ReleaseRequest, ReleaseSlice
from bus.identity.certificates import Lifetime, Purpose, Subject, certify
from bus.identity.credentials import Presented
from bus.nats.access_client import CapabilityRequest, RevocationRequest
from bus.stores import state_store
from bus.stores.consumer_keeper import CarryRequest
from bus.wire.envelope import pack
from bus.wire.messages import Questions
from bus.wire.shared_decisions import SharedDecision, SharedDecisions, TopicRequest
from pdp.access.domain import JoinRequest
from pdp.bundle.bundle import Bundle, File
from pdp.sessions.record import Challenge, ContextRecord
from pubsub_core.carriage.carrier_rights import Carrier
from pubsub_core.carriage.records import TOLD, Told
from pubsub_core.events.event import Event
from pubsub_core.events.event import encode as encode_event
from pubsub_core.key_groups import messages as keys
from pubsub_core.key_groups.key_group import Change
from pubsub_core.key_groups.oft import Rekey
from pubsub_core.keys.cover_traffic import Box
from pubsub_core.messages import CALL, BrokerKey, Sent, SignedCall, Subscribe
from pubsub_core.rules import Table
from pubsub_core.server import durable_service
from pubsub_core.trust.broker_trust import Beat
from pubsub_core.trust.credential import Credential, issue
from pubsub_core.trust.vouches import ALL, vouch
from pubsub_core.types import OwnerPolicy
from pubsub_core.types.signature import Removal, SignedType
from sdp_cache.snapshots.snapshot import SIGNATURE_BYTES
from sdp_cache.snapshots.writer import write_snapshot
from tests.fuzz import gateway
from tests.fuzz.__main__ import CORPUS
from tests.fuzz.records import BINDING, CIPHER, GROUPS, KEY, NOW, PLACE, SEALER, TYPE, WRITER
from tests.fuzz.targets import _NET, _PAIR, TARGETS
from tests.pubsub_core.keys.office import MANAGER, PLAN
from tests.pubsub_core.keys.office import chain as key_chain
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


encoded = msgspec.msgpack.Encoder().encode


def _certificate() -> bytes:
    """A server's, with hosts."""
    subject = Subject("server", KEY.public, ("nats.uk.example", "127.0.0.1"), Purpose.SERVER)
    return ssl.PEM_cert_to_DER_cert(certify(subject, KEY, "servers of uk", Lifetime(NOW, 1000.0)))


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
    statement = Statement.sign(KEY, "shop", NOW, [bytes(32)])[0]
    decision = Decision(True, Reason.POLICY, ("open",))
    taught = SharedDecisions(statement, [SharedDecision(request, decision, 0, (bytes(32),))])
    both = Relate(Path("event", (GROUPS[0],)), "==", Path("event", (GROUPS[1],)))
    membership = dict.fromkeys(("network", "url", "capability", "certificate", "authority"), "x")
    of_keys = PLAN.of(TYPE).groups[0].id
    asked = keys.Request(str(MANAGER.public), NOW, (of_keys,), key_chain(KEY), bytes(32))
    asking = encoded(asked)
    signed = keys.SignedRequest(asking, KEY.sign(keys.REQUEST_DOMAIN + asking))
    sealable = Event(BINDING.type, BINDING.version, b"p" * 32, NOW, 1, {GROUPS[0]: "x", GROUPS[1]: 5})
    return {
        "certificates": (
            ("chain", chain),
            ("certificate", chain),
            ("notice", encode(notice)),
            ("text", unparse_chain([link]).encode()),
            ("text", unparse_notice(notice).encode()),
            ("token", Presented.of(HOLDER, chain).encode().encode()),
            ("arrival", json.dumps({"nats": body}).encode()),
            ("link", _certificate()),
        ),
        "envelopes": (
            ("bus.wire.messages.unpack_questions", pack(Questions([request]))[1:]),
            ("bus.wire.messages.unpack_request", pack(request)[1:]),
            ("bus.nats.access_client.unpack_revocation", pack(RevocationRequest(encode(notice), chain))[1:]),
            ("introduction", Introduction.of(KEY, (link,), NOW).encode()),
            ("release", _content(sign_release(release, KEY))),
            ("preparation", encoded(Preparation("shop", bundle.hash, (bundle.hash,), ""))),
            ("bus.wire.shared_decisions.unpack_shared_decisions", encoded(taught)),
            ("bus.wire.shared_decisions.unpack_topic_request", encoded(TopicRequest(["subject:ann"]))),
            ("bus.services.attribute_client._unpack_question", encoded(["subject", ["ann"], ["role"], b"n"])),
            (
                "bus.stores.consumer_keeper.unpack_carry_request",
                encoded(CarryRequest((("carrier", b"x"),), "s", "n")),
            ),
            ("bus.feeds.held_releases_service._unpack_question", encoded(ReleaseRequest("00", True, 1))),
            ("bus.feeds.held_releases_service._unpack_slice", encoded(ReleaseSlice("pdp-1", "00", 1, b"x"))),
        ),
        "calls": (
            ("call", _content(CALL.sign(call, KEY))),
            ("credential", issue(credential, KEY)),
            ("broker exchange key", encoded(BrokerKey("b", bytes(32), bytes(32)))),
        ),
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
        "records": (
            ("audit record", encoded(AuditRecord(WRITER, 1, bytes(32), NOW, request, decision))),
            ("audit head", encoded(SignedHead(WRITER, 1, bytes(32), 1))),
            ("heartbeat", encoded(Beat(NOW))),
            ("carrier", encoded(Carrier(PLACE, (str(OWNER.public),), NOW))),
            ("policy", encoded(OwnerPolicy(KIND.id, NOW, bundle.pack()))),
            ("table", encoded(Table("met", "staff", 1, {"ann": {"ward": "A", "age": 5}}))),
            ("state", encoded(state_store._Entry(("00",), b"x"))),
            (
                "durable",
                encoded(durable_service._Record("late", KIND.id, KIND.name, FILTERS[0], NOW, 7, [9])),
            ),
            (
                "consumer",
                gateway.encoded({"name": "c", "config": {"filter_subjects": ["a"]}, "num_pending": 1}),
            ),
            ("box", encoded(Box(NOW, (SEALER.seal_for(GROUPS[0], BINDING, (b"k",)),), b"x"))),
            ("columns", CIPHER.seal_many([sealable]) or b""),
            ("role record", encoded(ContextRecord("mode", 3, str(KEY.public), NOW))),
            ("role challenge", encoded(Challenge("n", NOW))),
            ("term", encoded(Equal(Path("event", (GROUPS[0],)), 3))),
            ("layer", encoded(SEALER.seal_for(GROUPS[1], BINDING, (encoded(both),)))),
            ("membership", gateway.encoded(membership)),
            ("event type removal", encoded(Removal(KIND.name, NOW))),
            ("capability request", encoded(CapabilityRequest(NOW, "s"))),
            ("join request", encoded(JoinRequest("met", GRANTS, NOW))),
            ("attributes of staff", encoded([b"n", {"ann": [{"role": "a"}, 5.0]}, ""])),
            ("changed attributes of staff", encoded(["subject", ["ann"]])),
        ),
        "managers": (
            ("request", encoded(asked)),
            ("signed request", encoded(signed)),
            ("key manager appointment", encoded(keys.Appointment(KIND.id, str(KEY.public), NOW + 9, NOW))),
            ("key manager", encoded(keys.Introduction(KIND.id, bytes(32), PLAN, at=NOW))),
            ("key change", encoded(Change(GROUPS[0], NOW, Rekey(2, (1,), ((2, 3),))))),
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
