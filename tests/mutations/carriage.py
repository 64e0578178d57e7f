"""Defences of events on their way: holds, proofs of publishers, parcels, presence and trust between brokers."""

from __future__ import annotations

from tests.mutations.mutation import Edit, Mutation, without

_BROKER = "tests/pubsub_core/broker/test_core.py::"
_PRESENCE = "tests/pubsub_core/carriage/test_presence.py::"
_NAMES = "tests/pubsub_core/types/test_names.py::"
_HOLD_NO_TYPE = (
    Edit(
        "pubsub_core/broker/holds.py",
        "            if event.type in self._types or event.publisher in self._publishers:\n",
        "            if False:\n",
    ),
    Edit(
        "pubsub_core/delivery/dispatcher.py",
        "            if held and item.event is not None and item.event.type in held:\n",
        "            if False:\n",
    ),
)

_NO_NONCES = (
    Edit(
        "pubsub_core/carriage/receiving.py", "        if self._nonces.knows(nonce):\n", "        if False:\n"
    ),
    Edit(
        "pubsub_core/carriage/receiving.py",
        "        if not self._nonces.use(nonce, proof.time, sent):\n",
        "        if False:\n",
    ),
)

CARRIAGE: list[Mutation] = [
    without(
        "tests/pubsub_core/test_gaps.py::test_what_a_trusted_broker_signed_and_nobody_can_believe_is_told[proof]",
        "pubsub_core/carriage/receiving.py",
        "            self._miss((type_,), GapReason.CARRIAGE, UNPROVED, parcel.time)\n",
        "            pass\n",
    ),
    without(
        "tests/pubsub_core/access/test_owner_policies.py::test_rules_of_owner_and_host_both_let_through_what_is_delivered",
        "pubsub_core/access/rights.py",
        "        left = obliged & owned.restriction & said\n",
        "        left = obliged & owned.restriction\n",
    ),
    without(
        "tests/pubsub_core/access/test_owner_policies.py::test_of_two_policies_the_later_counts_and_only_if_the_owner_signed_it",
        "pubsub_core/types/owner_policy.py",
        "        if str(opened.signer) != self._catalogue.newest(policy.type).owner:\n",
        "        if False:\n",
    ),
    without(
        "tests/pubsub_core/access/test_owner_policies.py::test_what_could_not_be_asked_anew_is_held_and_asked_again",
        "pubsub_core/server/owner_policy_service.py",
        "                await self._reauthorize(self._held[0])\n"
        "                self._broker.release(self._held.pop(0))\n",
        "                types = self._held.pop(0)\n                try:\n"
        "                    await self._reauthorize(types)\n                finally:\n"
        "                    self._broker.release(types)\n",
    ),
    without(
        "tests/pubsub_core/access/test_recorded.py::test_nothing_is_delivered_before_the_audit_stream_has_it",
        "pubsub_core/delivery/dispatcher.py",
        "        if recorded and not again:\n",
        "        if False:\n",
    ),
    without(
        "tests/pubsub_core/rules/test_soundness.py::test_what_is_judged_together_is_shown_as_each_would_be_by_itself",
        "pubsub_core/rules/judge.py",
        "            shown = sift(only, shown)\n",
        "            pass\n",
    ),
    without(
        "tests/pubsub_core/rules/test_soundness.py::test_what_is_judged_together_is_shown_as_each_would_be_by_itself",
        "pubsub_core/rules/judge.py",
        "            shown = self._wanted.sift(shown)\n",
        "            pass\n",
    ),
    without(
        "tests/pubsub_core/rules/test_soundness.py::test_what_is_judged_together_is_shown_as_each_would_be_by_itself",
        "pubsub_core/access/enforcement.py",
        "            passing = sift(self.restriction.filter, events)\n",
        "            passing = events\n",
    ),
    without(
        "tests/pubsub_core/rules/test_rates.py::test_rates_outlast_a_broker_that_is_restarted",
        "pubsub_core/stores/usage_store.py",
        "            rates.restore(usage.rates)\n",
        "",
    ),
    Mutation(
        "tests/pubsub_core/server/test_policy_watch_service.py::test_a_type_that_a_release_does_not_touch_is_delivered_while_another_is_asked_anew",
        _HOLD_NO_TYPE,
    ),
    without(
        "tests/pubsub_core/server/test_policy_watch_service.py::test_whoever_subscribes_while_a_release_is_known_and_not_in_force_is_granted_by_it",
        "pubsub_core/server/service.py",
        "        self.claims.expect(changes[-1].epoch)\n",
        "",
    ),
    Mutation(f"{_BROKER}test_what_waits_for_a_client_is_not_sent_while_its_type_is_held", _HOLD_NO_TYPE),
    without(
        f"{_BROKER}test_a_bundle_that_somebody_else_signed_or_that_was_altered_is_refused",
        "pubsub_core/delivery/admission.py",
        "        proof.verify(session.key, digests)\n",
        "",
    ),
    without(
        f"{_BROKER}test_an_event_that_is_not_among_those_signed_is_refused",
        "pubsub_core/carriage/receiving.py",
        "        proof.verify(signer, contents.digests)\n",
        "",
    ),
    without(
        f"{_BROKER}test_a_parcel_that_was_altered_after_its_broker_signed_it_is_refused",
        "pubsub_core/carriage/parcel.py",
        "    contents.check()\n",
        "",
    ),
    without(
        f"{_BROKER}test_a_replayed_parcel_and_one_that_was_stored_too_late_are_refused",
        "pubsub_core/carriage/receiving.py",
        "        elif self._gaps.repeats(sender, parcel):\n",
        "        elif False:\n",
        *_NO_NONCES,
    ),
    without(
        f"{_BROKER}test_a_replay_of_what_a_broker_published_before_it_restarted_is_refused",
        "pubsub_core/carriage/receiving.py",
        "        elif self._gaps.repeats(sender, parcel):\n",
        "        elif False:\n",
        *_NO_NONCES,
        Edit("pubsub_core/carriage/receiving.py", "        return not gap.late\n", "        return True\n"),
    ),
    without(
        f"{_BROKER}test_a_parcel_counts_on_its_own_subject_only",
        "pubsub_core/carriage/receiving.py",
        "        if parcel.subject != subject:\n",
        "        if False:\n",
    ),
    without(
        f"{_BROKER}test_a_parcel_that_was_discarded_before_it_was_read_is_a_gap",
        "pubsub_core/carriage/receiving.py",
        "        if gap.lost:\n",
        "        if False:\n",
    ),
    without(
        f"{_BROKER}test_a_bundle_is_taken_when_the_stream_has_it_and_not_before",
        "pubsub_core/broker/core.py",
        "            self.sending.send(session.token, admitted, partial(self._carried, session, admitted, answer))\n",
        "            self.sending.send(session.token, admitted, lambda *_: None)\n"
        '            self._carried(session, admitted, answer, "", False)\n',
    ),
    without(
        f"{_BROKER}test_what_comes_from_a_stranger_or_a_broker_not_trusted_with_the_type_is_refused",
        "pubsub_core/carriage/receiving.py",
        "        elif not self._trusts(sender, type_):\n",
        "        elif False:\n",
    ),
    without(
        "tests/pubsub_core/carriage/test_awaiting_keys.py::test_a_sender_that_floods_takes_no_room_from_others",
        "pubsub_core/carriage/awaiting_keys.py",
        "        self._queues[sender] = queue\n",
        "        self._queues = dict.fromkeys((sender, *self._queues), queue)\n",
    ),
    without(
        "tests/pubsub_core/keys/test_late_keys.py::test_nothing_waits_that_comes_from_a_broker_not_trusted_with_it",
        "pubsub_core/carriage/receiving.py",
        "        elif not self._trusts(sender, type_):\n",
        "        elif False:\n",
    ),
    without(
        f"{_PRESENCE}test_who_is_distrusted_is_left_out_at_once_and_by_those_who_start_later",
        "pubsub_core/trust/vouches.py",
        "            if each.withdrawn:",
        "            if False:",
    ),
    without(
        f"{_PRESENCE}test_a_broker_that_the_owner_does_not_trust_is_believed_nothing",
        "pubsub_core/carriage/presence.py",
        "self._subscriptions.hear(peer.name, peer.wants & peer.carries)",
        "self._subscriptions.hear(peer.name, peer.wants)",
    ),
    without(
        f"{_PRESENCE}test_a_stranger_has_no_type_sealed",
        "pubsub_core/carriage/presence.py",
        "mark_sealed(peer.seals & peer.carries)",
        "mark_sealed(peer.seals)",
    ),
    without(
        f"{_PRESENCE}test_what_was_signed_by_nobody_or_said_before_counts_for_nothing",
        "pubsub_core/carriage/presence.py",
        "        if hello.time <= self._told.get(key, 0.0):\n",
        "        if False:\n",
    ),
    without(
        f"{_PRESENCE}test_who_has_taken_a_name_first_is_not_in_the_way_of_whoever_is_trusted",
        "pubsub_core/carriage/presence.py",
        "            if self._is_of_use(peer.key) or not self._is_of_use(key):",
        "            if True:",
    ),
    without(
        f"{_PRESENCE}test_a_flood_of_names_fills_no_memory_and_keeps_out_nobody_who_is_trusted",
        "pubsub_core/carriage/presence.py",
        "        if peer is None and not self._has_room(key):\n",
        "        if False:\n",
    ),
    without(
        f"{_PRESENCE}test_a_flood_of_names_fills_no_memory_and_keeps_out_nobody_who_is_trusted",
        "pubsub_core/carriage/presence.py",
        "        return any(self.trusts(key, each.definition.id) for each in self._setting.catalogue)\n",
        "        return False\n",
    ),
    without(
        f"{_PRESENCE}test_one_key_is_a_broker_under_so_many_names_only",
        "pubsub_core/carriage/presence.py",
        " or sum(peer.key == key for peer in peers) >= MAX_NAMES:\n",
        ":\n",
    ),
    without(
        f"{_PRESENCE}test_heartbeats_are_remembered_of_owners_of_types_only",
        "pubsub_core/trust/broker_trust.py",
        "return owner in self.owners and self.hear(owner, data, now)",
        "return self.hear(owner, data, now)",
    ),
    without(
        f"{_PRESENCE}test_heartbeats_reach_all_and_an_owner_that_falls_silent_is_out_of_reach",
        "pubsub_core/carriage/presence.py",
        "            if stored:\n                self._web.expect(data)\n",
        "            if False:\n                self._web.expect(data)\n",
    ),
    without(
        f"{_NAMES}test_a_broker_that_nobody_vouches_for_brings_no_types",
        "pubsub_core/carriage/type_exchange.py",
        "            if not self._web.would_trust(str(opened.signer), definition.id, definition.owner, now):\n",
        "            if False:\n",
    ),
    without(
        f"{_BROKER}test_an_event_of_another_time_than_there_is_is_not_taken_from_other_brokers",
        "pubsub_core/carriage/receiving.py",
        "            and 0.0 <= event.time <= latest\n",
        "",
    ),
    without(
        "tests/pubsub_core/keys/test_sealed_broker_keyless.py::"
        "test_what_somebody_publishes_once_more_is_not_taken_again",
        "pubsub_core/carriage/receiving.py",
        "        elif self._gaps.repeats(sender, parcel):\n",
        "        elif False:\n",
        *_NO_NONCES,
    ),
    without(
        "tests/bus/server/test_subject_permissions.py::"
        "TestBrokers::test_they_read_the_stream_of_parcels_by_consumers_of_their_own_only",
        "bus/server/role_subjects.py",
        "    names = consumer_names(owner)\n",
        '    names = ("*",)\n',
    ),
    without(
        "tests/pdp/access/test_carriage_rights.py::"
        "test_members_without_the_right_to_carry_neither_read_nor_publish_what_brokers_do",
        "bus/server/role_subjects.py",
        '        subjects.WHO,\n        f"{subjects.ROOT}.search.{network}",\n',
        '        subjects.WHO,\n        *reading(subjects.PARCELS),\n        f"{subjects.ROOT}.search.{network}",\n',
    ),
    without(
        "tests/pubsub_core/carriage/test_carrier_rights_service.py::"
        "test_a_broker_that_is_not_vouched_for_neither_reads_nor_publishes",
        "pubsub_core/carriage/carrier_rights_service.py",
        ' and "*" not in place and carried.allows(place.owner, place.type)',
        "",
    ),
    without(
        "tests/pubsub_core/carriage/test_carrier_rights_service.py::"
        "test_a_broker_reads_and_publishes_exactly_the_types_for_which_it_is_vouched",
        "bus/server/subject_permissions.py",
        "publish |= {members.publishing(network, *each) for each in carried.allowed}",
        'publish |= {members.publishing(network, each[0], "*") for each in carried.allowed}',
    ),
    without(
        "tests/pubsub_core/carriage/test_carrier_rights_service.py::"
        "test_a_broker_that_is_distrusted_is_cut_off_from_the_type_at_once",
        "pdp/access/service.py",
        "        return now.mark != mark and (before is None or not now.covers(before))\n",
        "        return False\n",
    ),
    without(
        "tests/pubsub_core/carriage/test_carrier_rights_service.py::"
        "test_a_broker_that_writes_records_without_end_is_put_out_and_they_are_taken_out",
        "pubsub_core/carriage/carrier_rights_service.py",
        "            await purge_records(member, place)\n",
        "",
    ),
    without(
        "tests/pubsub_core/carriage/test_carrier_rights.py::"
        "test_nobody_has_another_brokers_rights_by_repeating_what_it_says",
        "pubsub_core/carriage/carrier_rights.py",
        "carrier.place != place or ",
        "",
    ),
    without(
        "tests/pubsub_core/carriage/test_carrier_rights.py::"
        "test_vouches_that_strangers_make_up_give_and_take_nothing",
        "pubsub_core/carriage/carrier_rights.py",
        "        for owner in carrier.owners:\n",
        "        self._web.owners |= (strange := {each.signer for each in self._web.words._strange.values()})\n"
        "        for owner in (*carrier.owners, *strange):\n",
    ),
    without(
        "tests/pubsub_core/carriage/test_routing.py::"
        "test_digests_of_sealed_values_cannot_be_computed_without_the_key",
        "pubsub_core/carriage/routing.py",
        "hashlib.blake2b(_encode(value), key=secret, digest_size=8)",
        "hashlib.blake2b(_encode(value), digest_size=8)",
    ),
    without(
        "tests/pubsub_core/carriage/test_routing.py::"
        "test_a_new_key_is_routed_by_when_every_reader_that_selects_has_it",
        "pubsub_core/carriage/routing.py",
        "        settled = [key for key in keys or () if key.start + SETTLE_SECONDS <= now]\n",
        "        settled = [key for key in keys or () if key.start <= now]\n",
    ),
    without(
        "tests/bus/server/test_subject_permissions.py::"
        "TestBrokers::test_they_publish_records_below_their_own_place_only",
        "bus/server/role_subjects.py",
        'f"{_records(network, owner)}.>"',
        "f\"{_records(network, '*')}.>\"",
    ),
    without(
        "tests/pubsub_core/trust/test_broker_trust.py::test_a_word_is_taken_back_by_whoever_gave_it_and_may_be_given_anew",
        "pubsub_core/trust/vouches.py",
        "said = [each.said for each in self._by.get(signer, {}).values()]",
        "said = [each.said for each in self._known.values() if each.signer == signer or each.said.withdrawn]",
    ),
    without(
        "tests/pubsub_core/test_restricting.py::"
        "test_a_broker_cut_off_from_the_policy_feed_delivers_nothing_until_it_hears_it_again",
        "pubsub_core/server/policy_watch_service.py",
        "cut_off = self.stale_for > 0",
        "cut_off = False",
    ),
    without(
        f"{_BROKER}test_nothing_of_an_owner_out_of_reach_is_delivered",
        "pubsub_core/broker/core.py",
        "        if out_of_reach:",
        "        if False:",
    ),
    without(
        "tests/pubsub_core/test_gaps.py::test_a_client_that_does_not_read_gets_a_gap_and_keeps_its_session",
        "pubsub_core/broker/core.py",
        "        if session.send_window.full:",
        "        if False:",
    ),
    without(
        "tests/authz/predicate/test_predicate.py::TestStrangersRegexes::test_none_takes_longer_than_its_text_is_long",
        "authz/predicate/compiler.py",
        "search = compile_search(test.pattern)",
        "search = re.compile(test.pattern).search",
    ),
    without(
        "tests/pubsub_core/types/test_versions_side_by_side.py::test_what_is_hidden_stays_hidden_under_another_name",
        "pubsub_core/access/obligation.py",
        "self._ids(names).union(self._ever_called(names))",
        "self._ids(names)",
    ),
    without(
        "tests/pubsub_core/types/test_versions_side_by_side.py::test_an_event_made_by_a_version_with_other_kinds_of_values_does_not_slip_past_a_filter",
        "pubsub_core/access/enforcement.py",
        "        if event.version in self.restriction.foreign:\n            return False\n",
        "",
    ),
    without(
        "tests/pubsub_core/test_sessions.py::"
        "test_in_place_of_an_event_that_cannot_be_read_there_is_a_gap_and_reading_goes_on",
        "pubsub_core/client/subscriber.py",
        '                    detail = f"an event does not fit its type: {error}"\n',
        "                    raise\n",
    ),
    without(
        "tests/pubsub_core/keys/test_departed.py::test_a_broker_that_was_evicted_cannot_backdate_events",
        "pubsub_core/events/event_cipher.py",
        "        if self.ring.departures and self.ring.has_left(sender, sealed.keys):\n",
        "        if False:\n",
    ),
    without(
        "tests/pubsub_core/access/test_owner_policies.py::"
        "test_where_the_policy_of_a_governed_type_is_not_known_nobody_uses_it",
        "pubsub_core/access/owner_points.py",
        "            if policy is None and each.governed:\n",
        "            if False:\n",
    ),
    without(
        "tests/pubsub_core/test_durable.py::"
        "test_what_is_forbidden_while_a_durable_subscription_is_taken_up_is_not_granted",
        "pubsub_core/server/rpc_handlers.py",
        "            if self._claims.edition != edition:\n                granted = await self._allowed",
        "            if False:\n                granted = await self._allowed",
    ),
]
