"""Everything in the product that decodes bytes of a given form, and which fuzz target reads it, or why none has to."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("authz", "bus", "sdp_cache", "pdp", "pep", "pubsub_core", "spark_eval", "authfabric")
MAKERS = frozenset({"Unpack", "Seal", "Decoder"})

_SERVER = "an answer of the NATS server's own, which carries messages and may stop everything anyway"
_OWN_FILE = "a file that only this process's user may write"
_OWN_CHILD = "what a child process of the same user says"
_MEMORY = "what this process has encoded itself"
_SEALED = (
    "opened only under a key that whoever wrote it must have held, and refused like what cannot be opened"
)

PARSERS: Mapping[str, str] = {
    "authz/crypto/seal.py": "a signature around the content: every target of something signed reads it",
    "authz/release.py": "envelopes",
    "authfabric/backup/archive.py": "backups",
    "authfabric/chaos/record.py": _OWN_FILE,
    "bus/audit/file_store.py": _OWN_FILE,
    "bus/audit/records.py": "records",
    "bus/audit/writer_service.py": _MEMORY,
    "bus/feeds/held_releases_service.py": "envelopes",
    "bus/nats/access_client.py": "envelopes",
    "bus/nats/access_client.py:CAPABILITY_REQUEST": "records",
    "bus/server/callout_tokens.py": "certificates",
    "bus/server/system_account.py": _SERVER,
    "bus/services/attribute_client.py": "envelopes",
    "bus/services/attribute_client.py:_changes_seal": "records",
    "bus/services/attribute_client.py:_seal": "records",
    "bus/stores/consumer_keeper.py": "envelopes",
    "bus/stores/parcel_publisher.py": _SERVER,
    "bus/stores/state_store.py": "records",
    "bus/wire/envelope.py": "the envelope itself: every target of messages reads it",
    "bus/wire/messages.py": "envelopes",
    "bus/wire/role_messages.py": "envelopes",
    "bus/wire/shared_decisions.py": "envelopes",
    "pdp/access/domain.py": "records",
    "pdp/bundle/bundle.py": "bundles",
    "pdp/bundle/packed.py": _OWN_CHILD,
    "pdp/bundle/packed_store.py": _OWN_FILE,
    "pdp/engine/index.py": _OWN_CHILD,
    "pdp/sessions/record.py": "records",
    "pep/gateway/app.py": "gateway",
    "pubsub_core/carriage/carrier_rights.py": "records",
    "pubsub_core/carriage/carrier_rights_service.py": _SERVER,
    "pubsub_core/carriage/parcel.py": "hellos",
    "pubsub_core/carriage/receiving.py": _SEALED,
    "pubsub_core/carriage/records.py": "hellos",
    "pubsub_core/events/column_cipher.py": "records",
    "pubsub_core/events/event.py": "events",
    "pubsub_core/events/run.py": "events",
    "pubsub_core/functions/functions_service.py": _OWN_CHILD,
    "pubsub_core/history/fluent_log.py": _OWN_FILE,
    "pubsub_core/history/page_messages.py": "events",
    "pubsub_core/history/storage/tables.py": _OWN_FILE,
    "pubsub_core/key_groups/appointment_store.py": _OWN_FILE,
    "pubsub_core/key_groups/manager_service.py": _SEALED,
    "pubsub_core/key_groups/messages.py": "managers",
    "pubsub_core/key_groups/messages.py:decode_answer": _SEALED,
    "pubsub_core/key_groups/messages.py:unpack_question": "envelopes",
    "pubsub_core/key_groups/messages.py:unpack_told": "envelopes",
    "pubsub_core/key_groups/state_marks.py": _OWN_FILE,
    "pubsub_core/keys/cover_traffic.py": "records",
    "pubsub_core/keys/cover_traffic.py:_decode_messages": _SEALED,
    "pubsub_core/keys/filters.py": "records",
    "pubsub_core/keys/opening.py": _SEALED,
    "pubsub_core/messages.py": "events",
    "pubsub_core/messages.py:BROKER_KEY": "calls",
    "pubsub_core/messages.py:CALL": "calls",
    "pubsub_core/replay/ticket.py": _SEALED,
    "pubsub_core/rules/table.py": "records",
    "pubsub_core/server/durable_service.py": "records",
    "pubsub_core/stores/usage_store.py": _OWN_FILE,
    "pubsub_core/trust/broker_trust.py": "records",
    "pubsub_core/trust/credential.py": "calls",
    "pubsub_core/trust/vouches.py": "hellos",
    "pubsub_core/types/owner_policy.py": "records",
    "pubsub_core/types/signature.py": "records",
    "sdp_cache/inference/precise.py": _MEMORY,
    "spark_eval/experiment/simulation.py": _OWN_CHILD,
    "spark_eval/measurement/event_service.py": _OWN_CHILD,
}
"""By file, or by `file:name` where one is otherwise: the target, in one word, or the reason."""


def parsers() -> Iterator[tuple[str, str]]:
    """The file and the name of each: the variable or, where it is made in one, the function."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            file = path.relative_to(ROOT).as_posix()
            for name in _made(ast.parse(path.read_text()), ""):
                yield file, name


def _made(node: ast.AST, within: str) -> Iterator[str]:
    """Where calls that make one stand."""
    for child in ast.iter_child_nodes(node):
        inside = within
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            inside = child.name
        elif isinstance(child, ast.Assign | ast.AnnAssign) and not within:
            target = child.targets[0] if isinstance(child, ast.Assign) else child.target
            inside = ast.unparse(target)
        if isinstance(child, ast.Call) and _maker(child.func) in MAKERS:
            yield within
        yield from _made(child, inside)


def _maker(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
