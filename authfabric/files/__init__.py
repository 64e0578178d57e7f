"""What commands keep in files: settings, keys, capabilities, appointments, event types and histories."""

from typing import TYPE_CHECKING

from authz.lazy import lazily

if TYPE_CHECKING:
    from authfabric.files.appointments import appointment_text, read_appointment
    from authfabric.files.capabilities import (
        FileRefused,
        read_chains,
        read_encoded,
        read_file,
        read_owners,
        read_revocations,
        replace_file,
        write_encoded,
        write_new,
    )
    from authfabric.files.decision_rights import (
        Chain,
        DecisionRight,
        Key,
        empower,
        find_authority,
        write_authority,
    )
    from authfabric.files.event_types import (
        NamesOption,
        read_draft,
        read_names,
        read_signed_types,
        read_type,
        read_types,
        write_type,
    )
    from authfabric.files.history import (
        DEFAULT,
        KEY_BYTES,
        Database,
        HistoryKey,
        KeepFile,
        history_key_path,
        history_setting,
        history_url,
        read_history_keys,
        write_history_keys,
    )
    from authfabric.files.keys import (
        Trust,
        followed_keys,
        load_or_make,
        own_identity,
        roles_key_file,
        trusted_keys,
    )
    from authfabric.files.network_key import (
        NetworkKey,
        Step,
        change_network_key,
        make_network_key,
        read_network_key,
    )
    from authfabric.files.rules import role_seniors, rule_files
    from authfabric.files.settings import (
        CONNECT_SECONDS,
        DEFAULT_POLICIES,
        STARTERS,
        cache_folder,
        fabric_folder,
        find_trust,
        find_url,
        forget_running,
        note_running,
        own_state_folder,
    )
    from authfabric.files.storage_classes import read_storage

__all__ = [
    "CONNECT_SECONDS", "DEFAULT", "DEFAULT_POLICIES", "KEY_BYTES", "STARTERS", "Chain", "Database", "DecisionRight",
    "FileRefused", "HistoryKey", "KeepFile", "Key", "NamesOption", "NetworkKey", "Step", "Trust",
    "appointment_text", "cache_folder", "change_network_key", "empower", "fabric_folder", "find_authority",
    "find_trust", "find_url", "followed_keys", "forget_running", "history_key_path", "history_setting",
    "history_url", "load_or_make", "make_network_key", "note_running", "own_identity", "own_state_folder",
    "read_appointment", "read_chains", "read_draft", "read_encoded", "read_file", "read_history_keys", "read_names",
    "read_network_key", "read_owners", "read_revocations", "read_signed_types", "read_storage", "read_type",
    "read_types", "replace_file", "role_seniors", "roles_key_file", "rule_files", "trusted_keys", "write_authority",
    "write_encoded", "write_history_keys", "write_new", "write_type",
]  # fmt: skip

__getattr__ = lazily(
    __name__,
    {
        ".appointments": "appointment_text read_appointment",
        ".capabilities": "FileRefused read_file read_chains read_encoded read_owners read_revocations replace_file"
        " write_encoded write_new",
        ".decision_rights": "Chain DecisionRight Key empower find_authority write_authority",
        ".event_types": "NamesOption read_signed_types read_names read_draft read_type read_types write_type",
        ".history": "DEFAULT KEY_BYTES Database HistoryKey KeepFile history_key_path history_setting history_url"
        " read_history_keys write_history_keys",
        ".keys": "Trust followed_keys load_or_make own_identity roles_key_file trusted_keys",
        ".network_key": "NetworkKey Step change_network_key make_network_key read_network_key",
        ".rules": "role_seniors rule_files",
        ".settings": "CONNECT_SECONDS DEFAULT_POLICIES STARTERS cache_folder fabric_folder find_trust"
        " find_url forget_running note_running own_state_folder",
        ".storage_classes": "read_storage",
    },
)
