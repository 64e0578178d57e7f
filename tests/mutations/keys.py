"""What keys may be used for: no signature over what others chose, and no secret that comes of one."""

from __future__ import annotations

from tests.mutations.mutation import Edit, Mutation, without

_CONTROL = "tests/pdp/access/test_control.py::"
_DECIDERS = "tests/authz/test_deciders.py::"
_FALSE = "tests/pubsub_core/keys/test_false_server.py::"

_SIGNS_NONCES = Edit(
    "bus/dialing.py",
    "connection_key(credentials.identity).sign(nonce.encode())",
    "credentials.identity.sign(nonce.encode())",
)
_SECRET_IS_SIGNATURE = (
    "pubsub_core/keys/exchange.py",
    'root = identity.derive(f"secrets of a {office}")',
    'root = identity.sign(f"authfabric secrets of a {office} 1\\0".encode())',
)

KEYS: list[Mutation] = [
    without(
        f"{_CONTROL}TestTheLoop::test_a_connection_key_speaks_for_nobody_who_has_not_bound_it",
        "bus/credentials.py",
        "        holder.verify(self.binding, _DOMAIN + connection.raw)\n",
        "",
    ),
    without(
        f"{_CONTROL}TestTheLoop::test_nobody_is_called_by_a_key_that_it_did_not_prove",
        "pdp/access/control.py",
        'raise NotAdmitted("", f"is refused: {error}") from None',
        'raise NotAdmitted(arrival.key, f"is refused: {error}") from None',
    ),
    without(
        "tests/bus/test_dialing.py::test_no_server_gets_the_signature_of_an_identity_over_what_it_chose",
        _SIGNS_NONCES.file,
        _SIGNS_NONCES.old,
        _SIGNS_NONCES.new,
    ),
    without(
        f"{_FALSE}test_a_false_server_does_not_read_what_clients_say_to_a_broker",
        *_SECRET_IS_SIGNATURE,
        _SIGNS_NONCES,
    ),
    without(
        f"{_FALSE}test_a_false_server_reads_neither_questions_to_a_key_manager_nor_its_state",
        *_SECRET_IS_SIGNATURE,
        _SIGNS_NONCES,
    ),
    without(
        "tests/pep/test_authority.py::test_an_introduction_in_force_gives_way_to_no_other_however_well_signed",
        "authz/deciders.py",
        "if introduction.agreement != known.introduction.agreement:",
        "if False:",
    ),
    without(
        f"{_DECIDERS}test_a_new_introduction_gives_no_rate_back",
        "authz/deciders.py",
        "spent = {} if known is None else known.spent",
        "spent: Spent = {}",
    ),
    without(
        f"{_DECIDERS}test_parts_of_two_introductions_make_no_third",
        "authz/introduction.py",
        "_encode((self.key, self.agreement, self.chain, self.at))",
        "_encode((self.key, self.agreement))",
    ),
    without(
        "tests/pubsub_core/keys/test_exchange.py::test_no_secret_comes_of_a_signature",
        *_SECRET_IS_SIGNATURE,
    ),
]
