"""Which NATS subjects each role in a network needs: what askers, deciders, brokers and auditors publish and hear.

A network is a domain's token, or `*` for all domains. Subjects are patterns here, as NATS has them in permissions.
"""

from __future__ import annotations

from bus.stream_reader import rights
from bus.subjects import (
    ANNOUNCE,
    AUDIT,
    AUDIT_HEADS,
    AUDITED,
    AUDITED_UP_TO,
    CONTENT,
    CONTEXT,
    KEYS,
    MANY,
    RELEASED,
    RELEASES,
    RENEW,
    REVOCATIONS,
    ROLES,
    ROOT,
    TYPES,
    WHO,
    path_tokens,
    recorded,
)

COMMON = frozenset({"$SYS.REQ.USER.INFO", "$JS.API.INFO", RENEW})
"""What everyone who may connect may ask."""
_OPEN = (RELEASES, CONTENT, TYPES, KEYS, REVOCATIONS)
"""The buckets that everyone who may connect may read: what stands in them is signed, or sealed, or no secret."""


def asked_about(network: str, pattern: str) -> str:
    """Where questions about the objects of a pattern are asked: `*`, `/sales/*` or `/sales/q1`, in a network."""
    questions = f"{ROOT}.ask.*.{network}"
    if pattern == "*":
        return f"{questions}.>"
    if pattern.endswith("/*"):
        return f"{questions}.*.{path_tokens(pattern[:-2])}.>"
    return f"{questions}.*.{path_tokens(pattern)}.*"


def asking(network: str) -> set[str]:
    """Where those who ask publish: questions, their standing, what they were answered, and what they read."""
    policy = f"{ROOT}.policy.{network}"
    return {
        f"{ROOT}.ask.*.{network}.>",
        f"{ROOT}.ask.*.{MANY}",
        WHO,
        f"{ROOT}.search.{network}",
        f"{policy}.members",
        f"{policy}.roll",
        f"{ROOT}.roles.{network}",
        f"{ROOT}.wishes.{network}",
        f"{ROOT}.events.{network}.*.*",
        f"{ROOT}.keys.*.manager",
        f"{ROOT}.keys.*.requests",
        f"{AUDITED}.{network}.*",
        f"{AUDITED_UP_TO}.{network}.*",
        *(f"$JS.API.STREAM.INFO.{stream}" for stream in (AUDIT, AUDIT_HEADS)),
        *(each for bucket in _OPEN for each in reading(f"KV_{bucket}")),
    }


def hearing(network: str) -> set[str]:
    """What those who ask listen to: who serves what, releases, each other's standing, and what is said to all."""
    records = {f"{recorded(bucket)}.>" for bucket in (TYPES, REVOCATIONS)}
    said = {f"{ROOT}.said.{network}.>", f"{ROOT}.keys.*.changes"}
    return {ANNOUNCE, f"{RELEASED}.{network}", f"{ROOT}.policy.{network}.members", *records, *said}


def deciding(network: str) -> set[str]:
    """Where those who decide publish, besides their answers."""
    return {ANNOUNCE, f"{ROOT}.alarms.{network}", attributes(network), f"{ROOT}.said.{network}.>"}


def serving(network: str, whole: bool) -> set[str]:
    """What those who decide listen to, besides questions; some only if they decide for a whole domain."""
    said = f"{attributes(network)}.changed"
    always = {WHO, f"{ROOT}.policy.{network}.roll", f"{ROOT}.wishes.{network}", said}
    return always | {f"{ROOT}.search.{network}"} if whole else always


def providing(network: str) -> set[str]:
    """What those listen to who say what is known of subjects and objects, and who is in which role."""
    return {attributes(network), f"{ROOT}.roles.{network}", f"{recorded(ROLES)}.{network}.>"}


def keeping(network: str) -> set[str]:
    """Where they publish, besides their answers: what has changed, and who is in which role."""
    return {f"{attributes(network)}.changed", f"$KV.{ROLES}.{network}.>", *reading(f"KV_{ROLES}")}


def attributes(network: str) -> str:
    """Where the attribute services of a network are asked."""
    return f"{ROOT}.attributes.{network}.*"


def releasing(network: str, owner: str) -> set[str]:
    """Where those who bring policies into force, install event types, or manage their keys publish."""
    written = {f"$KV.{RELEASES}.{network}", f"$KV.{CONTENT}.blob.*", f"$KV.{KEYS}.>", *defining(owner)}
    context = {f"$KV.{CONTEXT}.{network}.>", *reading(f"KV_{CONTEXT}")}
    return {*written, *context, f"{ROOT}.keys.*.changes"}


def installing(network: str) -> set[str]:
    """What they listen to: those who ask for keys, and what else is installed."""
    return {f"{ROOT}.keys.*.manager", f"{ROOT}.keys.*.requests", f"{recorded(CONTEXT)}.{network}.>"}


def carrying(network: str, owner: str) -> set[str]:
    """Where brokers publish, besides their answers: to each other, to clients, and the types they come to know."""
    return {*defining(owner), *reading(f"KV_{CONTEXT}"), f"{ROOT}.link.{network}.>", mail(network, "*")}


def defining(owner: str) -> set[str]:
    """Where definitions of types are written by one key, which is all that it may write there."""
    return {f"$KV.{TYPES}.{owner}.>"}


def brokering(network: str) -> set[str]:
    """What brokers listen to: their clients, brokers of all domains, and the tables that rules look into."""
    return {f"{ROOT}.events.{network}.*.*", f"{ROOT}.link.*.>", f"{recorded(CONTEXT)}.{network}.>"}


def mail(network: str, owner: str) -> str:
    """Where clients hear from brokers; with `*`, all of them."""
    return f"{ROOT}.mail.{network}.{owner}.*"


def reading_audit(network: str) -> set[str]:
    """Where auditors ask for what was decided, and for where writers stand."""
    return rights(AUDIT, f"{AUDITED}.{network}.*") | rights(AUDIT_HEADS, f"{AUDITED_UP_TO}.{network}.*")


def auditing(network: str) -> set[str]:
    """What auditors listen to."""
    return {f"{AUDITED}.{network}.*", f"{AUDITED_UP_TO}.{network}.*", f"{ROOT}.alarms.{network}"}


def reading(stream: str) -> set[str]:
    """Where messages of a stream are asked for."""
    return {f"$JS.API.STREAM.MSG.GET.{stream}", f"$JS.API.STREAM.INFO.{stream}"}


def within(network: str) -> set[str]:
    """All that belongs to one network."""
    return {
        f"{ROOT}.ask.*.{network}.>",
        f"{ROOT}.search.{network}",
        f"{RELEASED}.{network}",
        f"{ROOT}.policy.{network}.>",
        f"{ROOT}.alarms.{network}",
        f"{ROOT}.roles.{network}",
        f"{ROOT}.attributes.{network}.>",
        f"{ROOT}.wishes.{network}",
        f"{ROOT}.said.{network}.>",
        f"{ROOT}.events.{network}.*.*",
        f"{ROOT}.link.{network}.>",
        f"{ROOT}.mail.{network}.>",
        f"{AUDITED}.{network}.*",
        f"{AUDITED_UP_TO}.{network}.*",
        f"$KV.{RELEASES}.{network}",
        f"$KV.{CONTEXT}.{network}.>",
        f"{recorded(CONTEXT)}.{network}.>",
        f"$KV.{ROLES}.{network}.>",
        f"{recorded(ROLES)}.{network}.>",
    }
