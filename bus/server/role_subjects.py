"""Which NATS subjects each role in a network needs: what askers, deciders, brokers and auditors publish and hear.

A network is a domain's token, or `*` for all domains. Subjects are patterns here, as NATS has them in permissions.
"""

from __future__ import annotations

from collections.abc import Collection

from bus.stores import STORAGE, consumer_names, reader_names, rights
from bus.wire import subjects

COMMON = frozenset({"$SYS.REQ.USER.INFO", "$JS.API.INFO", subjects.RENEW})
"""Subjects on which everyone who may connect may send requests."""
_OPEN = (
    subjects.RELEASES,
    subjects.NEWEST,
    subjects.CONTENT,
    subjects.TYPES,
    subjects.KEYS,
    subjects.REVOCATIONS,
)
"""The buckets that everyone who may connect may read: what stands in them is signed, or sealed, or no secret."""
_CONSUMER_CALLS = ("INFO", "MSG.NEXT")
"""What a broker may do with a consumer that was made for it."""


def asked_about(network: str, pattern: str) -> str:
    """Where questions about the objects of a pattern are asked: `*`, `/sales/*` or `/sales/q1`, in a network."""
    questions = f"{subjects.ROOT}.ask.*.{network}"
    if pattern == "*":
        return f"{questions}.>"
    if pattern.endswith("/*"):
        return f"{questions}.*.{subjects.path_tokens(pattern[:-2])}.>"
    return f"{questions}.*.{subjects.path_tokens(pattern)}.*"


def asking(network: str) -> set[str]:
    """Where those who ask publish: questions, their standing, what they were answered, and what they read."""
    policy = f"{subjects.ROOT}.policy.{network}"
    return {
        f"{subjects.ROOT}.ask.*.{network}.>",
        f"{subjects.ROOT}.ask.*.{subjects.MANY}",
        subjects.WHO,
        f"{subjects.ROOT}.search.{network}",
        f"{subjects.ROOT}.scope.{network}",
        f"{policy}.members",
        f"{policy}.call",
        f"{policy}.roll",
        f"{policy}.roll.some",
        f"{policy}.held",
        f"{subjects.ROOT}.roles.{network}",
        f"{subjects.ROOT}.wishes.{network}",
        f"{subjects.ROOT}.events.{network}.*.*",
        f"{subjects.ROOT}.keys.*.manager",
        f"{subjects.ROOT}.keys.*.requests",
        f"{subjects.AUDITED}.{network}.*",
        f"{subjects.AUDITED_UP_TO}.{network}.*",
        *(f"$JS.API.STREAM.INFO.{stream}" for stream in (subjects.AUDIT, subjects.AUDIT_HEADS)),
        *(each for bucket in _OPEN for each in reading(f"KV_{bucket}")),
    }


def hearing(network: str) -> set[str]:
    """The subjects that askers subscribe to: announcements, releases, member status and broadcasts."""
    records = {f"{subjects.recorded(bucket)}.>" for bucket in (subjects.TYPES, subjects.REVOCATIONS)}
    said = {
        f"{subjects.ROOT}.said.{network}.>",
        f"{subjects.ROOT}.changed.{network}.*",
        f"{subjects.ROOT}.keys.*.changes",
    }
    standing = {f"{subjects.ROOT}.policy.{network}.{word}" for word in ("members", "call")}
    return {subjects.ANNOUNCE, f"{subjects.RELEASED}.{network}", *standing, *records, *said}


def deciding(network: str) -> set[str]:
    """Where those who decide publish, besides their answers."""
    return {
        subjects.ANNOUNCE,
        f"{subjects.ROOT}.alarms.{network}",
        attributes(network),
        f"{subjects.ROOT}.said.{network}.>",
        f"{subjects.ROOT}.changed.{network}.*",
    }


def serving(network: str, whole: bool) -> set[str]:
    """What those who decide listen to, besides questions; some only if they decide for a whole domain."""
    said = f"{attributes(network)}.changed"
    policy = f"{subjects.ROOT}.policy.{network}"
    asked = {f"{policy}.{word}" for word in ("roll", "roll.some", "held", "prepare")}
    always = {subjects.WHO, f"{subjects.ROOT}.wishes.{network}", said, *asked}
    lists = {f"{subjects.ROOT}.search.{network}", f"{subjects.ROOT}.scope.{network}"}
    return always | lists if whole else always


def providing(network: str) -> set[str]:
    """What those listen to who say what is known of subjects and objects, and who is in which role."""
    prepare = f"{subjects.ROOT}.policy.{network}.prepare"
    return {
        attributes(network),
        f"{subjects.ROOT}.roles.{network}",
        f"{subjects.recorded(subjects.ROLES)}.{network}.>",
        prepare,
    }


def keeping(network: str) -> set[str]:
    """Where they publish, besides their answers: what has changed, and who is in which role."""
    return {
        f"{attributes(network)}.changed",
        subjects.written(subjects.ROLES, f"{network}.>"),
        *reading(f"KV_{subjects.ROLES}"),
    }


def attributes(network: str) -> str:
    """Where the attribute services of a network are asked."""
    return f"{subjects.ROOT}.attributes.{network}.*"


def releasing(network: str, owner: str) -> set[str]:
    """Where those who bring policies into force, install event types, or manage their keys publish."""
    releases = {subjects.written(bucket, network) for bucket in (subjects.RELEASES, subjects.NEWEST)}
    stored = {
        *releases,
        subjects.written(subjects.CONTENT, f"blob.{network}.*"),
        subjects.written(subjects.KEYS, f"{owner}.>"),
        *defining(owner),
    }
    context = {subjects.written(subjects.CONTEXT, f"{network}.{owner}.>"), *reading(f"KV_{subjects.CONTEXT}")}
    return {*stored, *context, f"{subjects.ROOT}.policy.{network}.prepare", f"{subjects.ROOT}.keys.*.changes"}


def installing(network: str) -> set[str]:
    """What they listen to: those who ask for keys, and what else is installed."""
    return {
        f"{subjects.ROOT}.keys.*.manager",
        f"{subjects.ROOT}.keys.*.requests",
        f"{subjects.recorded(subjects.CONTEXT)}.{network}.>",
    }


def carrying(network: str, owner: str, storage: Collection[str] = ()) -> set[str]:
    """Where brokers publish, besides answers and events: requests for consumers, records, and what is for clients."""
    return {
        *defining(owner),
        *reading(f"KV_{subjects.CONTEXT}"),
        *rights(subjects.BROKERS, subjects.broker_record(None, "*", ">")),
        *consuming(owner, storage),
        *reading(f"KV_{subjects.DURABLES}"),
        subjects.written(subjects.DURABLES, f"{network}.>"),
        subjects.carry(owner),
        _mark(network, owner),
        f"{_records(network, owner)}.>",
        f"{subjects.ROOT}.past.{network}.*",
        mail(network, "*"),
    }


def consuming(owner: str, storage: Collection[str] = ()) -> set[str]:
    """Where a broker fetches parcels and acknowledges them: by consumers that were made for it, and no others."""
    names = consumer_names(owner)
    api = {f"$JS.API.CONSUMER.{what}.*.{name}" for name in names for what in _CONSUMER_CALLS}
    api |= {f"$JS.API.CONSUMER.MSG.NEXT.*.{name}" for name in reader_names(owner)}
    acknowledged = {f"$JS.ACK.*.{name}.>" for name in names}
    streams = {subjects.parcel_stream(each) for each in (*(known.name for known in STORAGE), *storage)}
    return {*api, *acknowledged, *(f"$JS.API.STREAM.INFO.{each}" for each in streams)}


def publishing(network: str, owner: str, type_: str) -> str:
    """Where the events of a type, or of all of an owner, are published in a network."""
    return subjects.parcels(None, "*", owner, type_).replace("*.*", f"*.{network}", 1)


def _mark(network: str, owner: str) -> str:
    return subjects.mark("", owner).replace(subjects.token(""), network, 1)


def defining(owner: str) -> set[str]:
    """Where definitions of types are written by one key, which is all that it may write there."""
    return {subjects.written(subjects.TYPES, f"{owner}.>")}


def brokering(network: str, owner: str) -> set[str]:
    """What brokers listen to: their clients, brokers of all domains, which types they may carry, and tables."""
    return {
        subjects.carried(owner),
        f"{subjects.ROOT}.events.{network}.*.*",
        f"{_records('*', '*')}.>",
        f"{subjects.ROOT}.past.*.*",
        f"{subjects.recorded(subjects.CONTEXT)}.{network}.>",
    }


def _records(network: str, owner: str) -> str:
    """Below this stand the records of whoever has a place in a network."""
    return subjects.broker_record(None, owner, "x").removesuffix(".x").replace(".*.", f".{network}.", 1)


def mail(network: str, owner: str) -> str:
    """Where clients hear from brokers; with `*`, all of them."""
    return f"{subjects.ROOT}.mail.{network}.{owner}.*"


def reading_audit(network: str) -> set[str]:
    """Where auditors ask for what was decided, and for where writers stand."""
    return (
        rights(subjects.AUDIT, f"{subjects.AUDITED}.{network}.*")
        | rights(subjects.AUDIT_HEADS, f"{subjects.AUDITED_UP_TO}.{network}.*")
        | {f"$JS.API.CONSUMER.LIST.{subjects.PARCELS}"}
    )


def auditing(network: str) -> set[str]:
    """What auditors listen to."""
    return {
        f"{subjects.AUDITED}.{network}.*",
        f"{subjects.AUDITED_UP_TO}.{network}.*",
        f"{subjects.ROOT}.alarms.{network}",
    }


def reading(stream: str) -> set[str]:
    """Where messages of a stream are asked for."""
    return {f"$JS.API.STREAM.MSG.GET.{stream}", f"$JS.API.STREAM.INFO.{stream}"}


def within(network: str) -> set[str]:
    """All that belongs to one network."""
    return {
        f"{subjects.ROOT}.ask.*.{network}.>",
        f"{subjects.ROOT}.search.{network}",
        f"{subjects.ROOT}.scope.{network}",
        f"{subjects.RELEASED}.{network}",
        f"{subjects.ROOT}.policy.{network}.>",
        f"{subjects.ROOT}.alarms.{network}",
        f"{subjects.ROOT}.roles.{network}",
        f"{subjects.ROOT}.attributes.{network}.>",
        f"{subjects.ROOT}.wishes.{network}",
        f"{subjects.ROOT}.said.{network}.>",
        f"{subjects.ROOT}.events.{network}.*.*",
        publishing(network, "*", "*"),
        f"{_records(network, '*')}.>",
        f"{subjects.ROOT}.past.{network}.*",
        f"{subjects.ROOT}.mail.{network}.>",
        f"{subjects.AUDITED}.{network}.*",
        f"{subjects.AUDITED_UP_TO}.{network}.*",
        subjects.written(subjects.RELEASES, network),
        subjects.written(subjects.NEWEST, network),
        subjects.written(subjects.CONTENT, f"blob.{network}.*"),
        subjects.written(subjects.CONTEXT, f"{network}.>"),
        f"{subjects.recorded(subjects.CONTEXT)}.{network}.>",
        subjects.written(subjects.ROLES, f"{network}.>"),
        f"{subjects.recorded(subjects.ROLES)}.{network}.>",
        subjects.written(subjects.DURABLES, f"{network}.>"),
    }
