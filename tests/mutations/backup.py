"""The defences of backups, and of files that are followed."""

from __future__ import annotations

from tests.mutations.mutation import Edit, Mutation, without

_ARCHIVE = "tests/authfabric/backup/test_archive.py::"
_CERTIFICATES = "tests/authfabric/test_broker_certificates.py::"
_FOLLOWED = "tests/authfabric/deployment/test_followed_trust.py::"

BACKUP: list[Mutation] = [
    without(
        f"{_ARCHIVE}test_an_archive_with_one_bit_changed_is_refused",
        "authfabric/backup/archive.py",
        "file.read(size), bound)\n            except InvalidTag:\n",
        "file.read(size), bound)\n            except KeyError:\n",
    ),
    without(
        f"{_ARCHIVE}test_an_archive_without_its_end_or_with_more_is_refused",
        "authfabric/backup/archive.py",
        "            if last and file.read(1):\n",
        "            if False:\n",
    ),
    without(
        f"{_ARCHIVE}test_an_archive_to_a_recipient_opens_by_that_key_if_its_signer_is_named",
        "authfabric/backup/archive.py",
        "        if anybody and not signers:\n",
        "        if False:\n",
    ),
    without(
        f"{_ARCHIVE}test_whoever_else_an_archive_is_encrypted_to_does_not_alter_it_for_those_with_the_passphrase",
        "authfabric/backup/archive.py",
        "any(other.recipient for other in header.keys)",
        "False",
    ),
    without(
        f"{_ARCHIVE}test_no_file_is_restored_outside_of_the_folder",
        "authfabric/backup/restoring.py",
        'if Path(name).is_absolute() or ".." in Path(name).parts:',
        "if False:",
    ),
    without(
        "tests/authfabric/backup/test_restored_fabric.py::"
        "test_a_backup_behind_what_members_hold_is_refused_and_if_it_is_meant_nobody_goes_by_it",
        "authfabric/backup/restoring.py",
        "    if newer and not behind:\n",
        "    if False:\n",
    ),
    without(
        f"{_FOLLOWED}test_a_running_pdp_takes_releases_by_whom_its_file_names_now",
        "bus/identity/followed_keys.py",
        "        self._keys = keys\n",
        "",
    ),
    without(
        f"{_FOLLOWED}test_a_file_without_keys_changes_nothing_and_is_told",
        "bus/identity/followed_keys.py",
        "            self.problem = str(error)\n            return False\n",
        "            keys = frozenset()\n",
    ),
    without(
        f"{_CERTIFICATES}test_whoever_no_longer_signs_for_a_domain_has_no_clients_there",
        "pubsub_core/server/certificates_service.py",
        "            self._end_untrusted()\n",
        "",
    ),
    without(
        f"{_CERTIFICATES}test_half_a_key_changes_nothing_and_is_told",
        "authfabric/commands/brokers/broker_certificates.py",
        "        keys[domain] = keys.get(domain, frozenset()) | read_keys([key])\n",
        "        with contextlib.suppress(InvalidKey):\n"
        "            keys[domain] = keys.get(domain, frozenset()) | read_keys([key])\n",
        Edit(
            "authfabric/commands/brokers/broker_certificates.py",
            "from collections.abc import Iterable,",
            "import contextlib\nfrom collections.abc import Iterable,",
        ),
    ),
]
