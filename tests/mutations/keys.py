"""What keys may be used for: none signs what others chose, no secret comes of a signature, none outlasts its use."""

from __future__ import annotations

from tests.mutations.mutation import Edit, Mutation, without

_CONTROL = "tests/pdp/access/test_control.py::"
_CHANNEL = "pubsub_core/keys/channel.py"
_CHANNELS = "tests/pubsub_core/test_channels.py::"
_DECIDERS = "tests/authz/authority/test_deciders.py::"
_FALSE = "tests/pubsub_core/keys/test_false_server.py::"

_MANAGER = "pubsub_core/key_groups/manager_service.py"
_PUT_BACK = "tests/pubsub_core/key_groups/test_put_back.py::"
_SIGNS_NONCES = Edit(
    "bus/nats/dialing.py",
    "connection_key(credentials.identity).sign(nonce.encode())",
    "credentials.identity.sign(nonce.encode())",
)
_SECRET_IS_SIGNATURE = (
    "pubsub_core/keys/hybrid.py",
    'root = identity.derive("secrets of a key manager")',
    'root = identity.sign(b"authfabric secrets of a key manager 1\\0")',
)

KEYS: list[Mutation] = [
    without(
        "tests/bus/stores/test_state_store.py::"
        "test_a_document_of_more_pieces_than_are_read_is_nothing_and_hides_no_other",
        "bus/stores/state_store.py",
        "        if len(entry.pieces) > MAX_PIECES:\n",
        "        if False:\n",
    ),
    without(
        f"{_PUT_BACK}test_whoever_may_install_elsewhere_puts_no_older_state_of_key_groups_in_place",
        "bus/server/role_subjects.py",
        'subjects.written(subjects.KEYS, f"{owner}.>")',
        'subjects.written(subjects.KEYS, ">")',
    ),
    without(
        f"{_PUT_BACK}test_whoever_may_install_elsewhere_puts_no_older_state_of_key_groups_in_place",
        _MANAGER,
        'return f"{place}.{name}" if place else name',
        "return name",
    ),
    without(
        f"{_PUT_BACK}test_whoever_may_install_elsewhere_stops_no_eviction_by_writing_on_and_on",
        _MANAGER,
        "before, alone = found.at, alone or found.at == before",
        "before, alone = found.at, False",
    ),
    without(
        f"{_PUT_BACK}test_replicas_of_several_members_share_one_state_though_others_write_on_and_on",
        _MANAGER,
        "if since < state.at < until and (data",
        "if False and (data",
    ),
    without(
        f"{_PUT_BACK}test_older_key_groups_that_servers_put_back_are_written_over_by_a_manager_that_knows_better",
        _MANAGER,
        "            return KeyGroup(newest, self._office.rules), True\n",
        "            pass\n",
        Edit(_MANAGER, "        if newest is not None and record.older(newest):  #", "        if False:  #"),
    ),
    without(
        f"{_PUT_BACK}test_a_manager_that_was_away_goes_on_from_no_older_key_groups_than_it_had",
        _MANAGER,
        "if newest is not None or record.tree.version >= mark:",
        "if True:",
    ),
    without(
        f"{_PUT_BACK}test_an_older_plan_of_key_groups_that_servers_put_back_does_not_count",
        _MANAGER,
        "if found.data and (ways := _decode_ways(found.data)).since >= self._office.ways.since:",
        "if found.data and (ways := _decode_ways(found.data)):",
    ),
    without(
        f"{_PUT_BACK}test_whoever_was_revoked_is_evicted_from_what_a_replica_stored_that_did_not_know",
        _MANAGER,
        "evicted = self._seen.get(id_) != found.revision and self._office.review(group, self._clock())",
        "evicted = False",
    ),
    without(
        "tests/authfabric/applications/test_document.py::"
        "test_a_broker_gets_the_keys_of_what_its_clients_publish_see_or_are_filtered_by",
        "authfabric/applications/document.py",
        "            if name not in client.brokers:\n",
        "            if False:\n",
    ),
    without(
        "tests/pubsub_core/client/test_profile.py::test_a_profile_that_others_can_read_is_refused",
        "pubsub_core/client/profile.py",
        "msgspec.json.decode(read_private(path), type=ProfileFile)",
        "msgspec.json.decode(path.read_bytes(), type=ProfileFile)",
    ),
    without(
        f"{_CONTROL}TestTheLoop::test_a_connection_key_speaks_for_nobody_who_has_not_bound_it",
        "bus/identity/credentials.py",
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
        "tests/bus/nats/test_dialing.py::test_no_server_gets_the_signature_of_an_identity_over_what_it_chose",
        _SIGNS_NONCES.file,
        _SIGNS_NONCES.old,
        _SIGNS_NONCES.new,
    ),
    without(
        "tests/pep/test_authority.py::test_a_false_server_gets_no_introduction_that_a_pep_believes",
        _SIGNS_NONCES.file,
        _SIGNS_NONCES.old,
        'credentials.identity.sign(nonce.encode("latin-1"))',
    ),
    without(
        f"{_FALSE}test_a_false_server_reads_neither_questions_to_a_key_manager_nor_its_state",
        *_SECRET_IS_SIGNATURE,
        _SIGNS_NONCES,
    ),
    without(
        "tests/pep/test_authority.py::test_an_introduction_in_force_gives_way_to_no_other_however_well_signed",
        "authz/authority/deciders.py",
        "if introduction.agreement != known.introduction.agreement:",
        "if False:",
    ),
    without(
        f"{_DECIDERS}test_a_new_introduction_gives_no_rate_back",
        "authz/authority/deciders.py",
        "spent = {} if known is None else known.spent",
        "spent: Spent = {}",
    ),
    without(
        f"{_DECIDERS}test_parts_of_two_introductions_make_no_third",
        "authz/authority/introduction.py",
        "_encode((self.key, self.agreement, self.chain, self.at))",
        "_encode((self.key, self.agreement))",
    ),
    without(
        "tests/pubsub_core/keys/test_hybrid.py::test_no_secret_comes_of_a_signature",
        *_SECRET_IS_SIGNATURE,
    ),
    without(
        f"{_CHANNELS}test_what_was_recorded_is_not_opened_by_the_keys_of_both_when_they_are_stolen_later",
        _CHANNEL,
        "        pair = X25519PrivateKey.generate()\n",
        "        pair = X25519PrivateKey.from_private_bytes(b'as after any start of the broker')\n",
    ),
    without(
        f"{_CHANNELS}test_a_session_is_of_no_use_to_whoever_learned_its_token",
        "pubsub_core/server/endpoints_service.py",
        "if session is not None and session.channel is channel else None",
        "",
    ),
    without(
        f"{_CHANNELS}test_what_a_client_signed_for_one_channel_is_refused_on_another",
        "pubsub_core/server/rpc_handlers.py",
        " or signed.channel != _binding(channel)",
        "",
    ),
    without(
        "tests/pubsub_core/keys/test_channel.py::test_nobody_draws_a_channel_in_place_of_anothers",
        _CHANNEL,
        "if client in self._known:",
        "if False:",
    ),
    without(
        "tests/pubsub_core/keys/test_channel.py::test_strangers_do_not_drive_clients_out_who_have_a_session",
        _CHANNEL,
        "channel = self._known.get(data[:PUBLIC_BYTES])",
        "channel = self._offered.get(data[:PUBLIC_BYTES])",
    ),
    without(
        "tests/pubsub_core/keys/test_departed.py::test_its_filters_are_not_read_under_the_keys_it_had",
        "pubsub_core/keys/ring.py",
        "if keys is None or self.has_left(sender, [(group, epoch)]):",
        "if keys is None:",
    ),
]
