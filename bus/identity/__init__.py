"""Who connects: credentials, keys in files, and TLS certificates over them."""

from typing import TYPE_CHECKING

from authz.lazy import lazily

if TYPE_CHECKING:
    from bus.identity.certificates import (
        Lifetime,
        Purpose,
        Subject,
        certificate_end,
        certified_hosts,
        certified_key,
        certify,
    )
    from bus.identity.credentials import Credentials, connection_key, read_token
    from bus.identity.credentials_store import (
        VARIABLE,
        CredentialsFile,
        CredentialsRefused,
        Found,
        chain_end,
        client_context,
        default_file,
        find_credentials,
        keep_renewed,
        parse_credentials,
        read_credentials,
        with_certificate,
        write_credentials,
    )
    from bus.identity.followed_keys import FollowedKeys
    from bus.identity.keystore import (
        PASSPHRASE_FILE_VARIABLE,
        PASSPHRASE_VARIABLE,
        KeyFileRefused,
        configured_passphrase,
        create_key,
        is_locked,
        load_key,
        load_public_key,
        lock,
        read_private,
        read_trusted,
        unlock,
        write_private,
    )
    from bus.identity.running_fabric import (
        Running,
        data_folder,
        find_running,
        others_may_write,
        running_file,
        state_folder,
    )

__all__ = [
    "PASSPHRASE_FILE_VARIABLE", "PASSPHRASE_VARIABLE", "VARIABLE", "Credentials", "CredentialsFile",
    "CredentialsRefused", "FollowedKeys", "Found", "KeyFileRefused", "Lifetime", "Purpose", "Running", "Subject",
    "certificate_end", "certified_hosts", "certified_key", "certify", "chain_end", "client_context",
    "configured_passphrase", "connection_key", "create_key", "data_folder", "default_file", "find_credentials",
    "find_running", "is_locked", "keep_renewed", "load_key", "load_public_key", "lock", "others_may_write",
    "parse_credentials", "read_credentials", "read_private", "read_token", "read_trusted", "running_file",
    "state_folder", "unlock", "with_certificate", "write_credentials", "write_private",
]  # fmt: skip

__getattr__ = lazily(
    __name__,
    {
        ".certificates": "Lifetime Purpose Subject certificate_end certified_hosts certified_key certify",
        ".credentials": "Credentials connection_key read_token",
        ".credentials_store": "VARIABLE CredentialsFile CredentialsRefused Found chain_end client_context"
        " default_file find_credentials keep_renewed parse_credentials read_credentials with_certificate"
        " write_credentials",
        ".followed_keys": "FollowedKeys",
        ".keystore": "PASSPHRASE_FILE_VARIABLE PASSPHRASE_VARIABLE KeyFileRefused configured_passphrase"
        " create_key is_locked load_key load_public_key lock read_private read_trusted unlock write_private",
        ".running_fabric": "Running data_folder find_running others_may_write running_file state_folder",
    },
)
