"""The defences against other users of a machine, and whoever reaches its ports."""

from __future__ import annotations

from tests.mutations.mutation import Mutation, without

_SETTINGS = "tests/authfabric/files/test_settings.py::"

MACHINE: list[Mutation] = [
    without(
        "tests/authfabric/test_audit.py::test_whoever_asks_hides_no_line_from_an_auditor_by_what_a_terminal_obeys",
        "authfabric/terminal/markup.py",
        "    if not text.isprintable():\n",
        "    if False:\n",
    ),
    without(
        "tests/authfabric/test_push.py::test_a_member_whose_name_a_terminal_would_obey_is_named_as_it_is_written",
        "authfabric/commands/policies/push.py",
        "[bold]{printable(name)}[/]: ",
        "[bold]{name}[/]: ",
    ),
    without(
        "tests/bus/runtime/test_health_server.py::test_strangers_who_hang_up_do_not_write_the_log",
        "bus/runtime/health_server.py",
        "        if not isinstance(sys.exception(), OSError):\n",
        "        if True:\n",
    ),
    without(
        f"{_SETTINGS}test_what_others_may_have_written_about_where_the_fabric_is_is_not_believed",
        "bus/identity/running_fabric.py",
        "            if others_may_write(os.fstat(file.fileno())):\n",
        "            if False:\n",
    ),
    without(
        f"{_SETTINGS}test_where_the_fabric_is_stands_where_nobody_else_can_write",
        "authfabric/files/settings.py",
        "        if others_may_write(folder.stat()):\n",
        "        if False:\n",
    ),
    without(
        "tests/pep/trust/test_trust_store.py::test_a_trust_file_that_everybody_may_write_to_is_refused",
        "bus/identity/keystore.py",
        'if os.name == "posix" and mode & stat.S_IWOTH:',
        "if False:",
    ),
    without(
        "tests/bus/identity/test_credentials_store.py::"
        "test_a_key_stands_in_no_file_unencrypted_not_even_for_a_moment",
        "bus/identity/credentials_store.py",
        "identity.to_pem(secret.encode())",
        "identity.to_pem()",
    ),
]
