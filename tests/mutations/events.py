"""How to take away what defends events."""

from __future__ import annotations

from tests.mutations.mutation import Edit, Mutation, without

_CONFINED = "tests/pubsub_core/functions/test_confinement.py::"
_FILTER = '    _done(libc.prctl(_SECCOMP, _FILTER, described, 0, 0), "seccomp")\n'
_HISTORY = "tests/pubsub_core/history/"
_NAMES = "tests/pubsub_core/types/test_names.py::"

EVENTS: list[Mutation] = [
    without(
        "tests/pubsub_core/stores/test_type_store.py::test_nobody_but_its_owner_takes_a_type_out",
        "pubsub_core/types/registry.py",
        "if (each.definition.owner, each.definition.name) == key]",
        "if each.definition.name == name]",
        Edit(
            "pubsub_core/types/registry.py",
            "            if each.definition.version not in self._signed:\n",
            "            if False:\n",
        ),
    ),
    without(
        "tests/pubsub_core/stores/test_type_store.py::"
        "test_neither_an_old_removal_nor_an_old_definition_counts_again",
        "pubsub_core/types/registry.py",
        "        if not any(each.at <= before for each in fallen):\n",
        "        if not fallen:\n",
        Edit(
            "pubsub_core/types/registry.py",
            "            if each.definition.version not in self._signed:\n",
            "            if False:\n",
        ),
    ),
    without(
        "tests/pubsub_core/stores/test_type_store.py::"
        "test_neither_an_old_removal_nor_an_old_definition_counts_again",
        "pubsub_core/types/registry.py",
        "if signed.at <= self._taken_out.get((definition.owner, definition.name), -1.0):",
        "if False:",
    ),
    without(
        f"{_NAMES}test_a_strangers_definition_that_comes_first_is_in_nobodys_way",
        "pubsub_core/server/service.py",
        "Catalogue(serving.trusted_names())",
        "Catalogue()",
    ),
    without(
        f"{_NAMES}test_nobody_defines_a_type_by_a_name_that_is_not_theirs",
        "pubsub_core/types/registry.py",
        "        if standing is None and parent is None and definition.id not in self._newest:\n",
        "        if False:\n",
    ),
    without(
        "tests/pubsub_core/types/test_registry.py::test_nobody_takes_the_uuids_of_a_type_of_somebody_else",
        "pubsub_core/types/signature.py",
        "        if definition.id != type_id(definition.name, definition.owner):\n",
        "        if False:\n",
    ),
    without(
        "tests/pubsub_core/types/test_registry.py::test_nobody_takes_the_uuids_of_a_type_of_somebody_else",
        "pubsub_core/types/signature.py",
        "        if definition.version != version_id(definition):\n",
        "        if False:\n",
    ),
    without(
        f"{_NAMES}test_who_owns_a_type_is_not_for_its_definition_to_say",
        "pubsub_core/access/rights.py",
        "        if owner != definition.owner_key:",
        "        if False:",
    ),
    without(
        "tests/pubsub_core/stores/test_type_store.py::"
        "test_whoever_may_write_to_the_store_writes_only_what_is_its_own[connect|install]",
        "bus/server/role_subjects.py",
        'return {subjects.written(subjects.TYPES, f"{owner}.>")}',
        'return {subjects.written(subjects.TYPES, ">")}',
    ),
    without(
        f"{_NAMES}test_an_edit_by_a_capability_that_is_taken_back_no_longer_counts",
        "pubsub_core/server/service.py",
        "        self.catalogue.heed(notice, time())\n",
        "",
    ),
    without(
        f"{_NAMES}test_a_sub_type_by_a_capability_that_is_taken_back_is_no_more",
        "pubsub_core/server/service.py",
        "                if self.catalogue.review(time()) or",
        "                if",
        Edit(
            "pubsub_core/server/service.py",
            "        return self.catalogue.review(time())\n",
            "        return False\n",
        ),
    ),
    without(
        f"{_NAMES}TestNames::test_whoever_is_trusted_with_names_lets_others_define_them",
        "pubsub_core/types/names.py",
        "verify(decode_chain(chain), owners, at, revocations)",
        "verify(decode_chain(chain), owners, at)",
    ),
    without(
        "tests/pubsub_core/types/test_registry.py::"
        "test_whoever_extends_a_type_does_not_keep_its_owner_from_taking_it_out",
        "pubsub_core/types/registry.py",
        "        for child in self.extended_by(id_):\n            self._remove(child)\n",
        "        if self.extended_by(id_):\n            return\n",
    ),
    without(
        "tests/pubsub_core/types/test_registry.py::"
        "test_of_two_edits_the_one_whose_owner_signed_last_is_the_newest",
        "pubsub_core/types/registry.py",
        "        return owned.at if owned else -1.0,",
        "        return 0.0,",
    ),
    without(
        "tests/pubsub_core/key_groups/test_manager_plans.py::"
        "test_an_introduction_that_is_repeated_does_not_bring_an_old_plan_back",
        "pubsub_core/key_groups/member_service.py",
        "        if introduction.since < self._managers.of(type_id).in_force.get(str(manager), 0.0):\n",
        "        if False:\n",
    ),
    without(
        "tests/pubsub_core/key_groups/test_manager_plans.py::"
        "test_an_introduction_that_is_repeated_does_not_bring_an_old_plan_back",
        "pubsub_core/key_groups/member_service.py",
        "        if not abs(self._clock() - introduction.at) <= MAX_AGE:\n",
        "        if False:\n",
    ),
    without(
        "tests/pubsub_core/key_groups/test_manager_plans.py::"
        "test_options_that_others_have_replaced_are_refused_unless_that_is_meant",
        "pubsub_core/key_groups/plan_history.py",
        "        if self.digest in before.former and not back:\n",
        "        if False:\n",
    ),
    without(
        "tests/pubsub_core/key_groups/test_manager_plans.py::"
        "test_whoever_is_evicted_while_the_plan_changes_has_nothing_of_the_old_keys",
        "pubsub_core/key_groups/manager_service.py",
        "        for id_ in self._office.ways.groups(self._clock()):\n",
        "        for id_ in self._office.plan.by_id:\n",
    ),
    without(
        "tests/pubsub_core/broker/test_pause_queue.py::test_a_sender_that_floods_takes_no_room_from_others",
        "pubsub_core/broker/pause_queue.py",
        "share = self._shares.setdefault(sender, _Share())",
        'share = self._shares.setdefault("", _Share())',
    ),
    without(
        "tests/pubsub_core/broker/test_pause_queue.py::test_a_sender_that_floods_takes_no_room_from_others",
        "pubsub_core/broker/pause_queue.py",
        " or share.size + size > MAX_HELD_BYTES",
        "",
    ),
    without(
        f"{_HISTORY}test_replay_limits.py::"
        "test_a_client_has_only_so_many_replays_under_way_in_all_its_sessions",
        "pubsub_core/replay/limits.py",
        "    own = [each for each in sessions if each.key == session.key]\n",
        "    own = [session]\n",
    ),
    without(
        f"{_HISTORY}test_rules.py::"
        "test_past_events_are_not_chosen_by_a_fluent_that_no_policy_allows_to_ask_about[sqlite]",
        "pubsub_core/access/rights.py",
        "        for fluent, decision in named.items():\n            if not decision.allowed:\n",
        "        for fluent, decision in named.items():\n            if False:\n",
    ),
    without(
        f"{_HISTORY}test_rule_sending.py::"
        "test_a_ticket_is_good_for_its_client_and_its_subscription_and_for_a_day",
        "pubsub_core/replay/ticket.py",
        "        same = (found.type, found.filter) == (subscription.type, subscription.filter)\n",
        "        same = True\n",
    ),
    without(
        "tests/pubsub_core/rules/test_fluent_doubt.py::"
        "test_what_depends_on_a_fluent_is_withheld_until_others_have_said_what_they_know",
        "pubsub_core/rules/context.py",
        "        if name in self.doubted:",
        "        if False:",
    ),
    without(
        f"{_HISTORY}test_past_service.py::test_a_time_that_cannot_be_is_not_taken_from_another_broker[nan]",
        "pubsub_core/replay/page_service.py",
        "            if 0.0 <= each[0].time <= latest:",
        "            if True:",
    ),
    without(
        "tests/pubsub_core/stores/test_table_store.py::"
        "test_whoever_else_may_write_tables_neither_takes_one_out_nor_brings_an_older_version_back",
        "bus/server/role_subjects.py",
        'context = {subjects.written(subjects.CONTEXT, f"{network}.{owner}.>"), *reading',
        'context = {subjects.written(subjects.CONTEXT, f"{network}.>"), *reading',
    ),
    without(
        "tests/pubsub_core/stores/test_table_store.py::test_a_table_that_was_removed_comes_back_by_its_owner_only",
        "pubsub_core/stores/table_store.py",
        "        self._versions[table.name] = table.version\n        if table.removed:\n",
        "        if not table.removed:\n            self._versions[table.name] = table.version\n"
        "        if table.removed:\n",
    ),
    without(
        "tests/pubsub_core/rules/test_fluent_exchange_service.py::"
        "test_what_is_told_is_of_the_same_fluent_and_for_those_trusted_with_what_is_behind_it",
        "pubsub_core/replay/fluent_marks.py",
        "    if not shared.types <= peer.carries:\n",
        "    if False:\n",
    ),
    without(
        f"{_HISTORY}storage/test_store.py::test_another_key_is_refused_at_once_and_the_right_one_goes_on[sqlite]",
        "pubsub_core/history/storage/store.py",
        "            if not self._is_own_key(connection):\n",
        "            if False:\n",
    ),
    without(
        "tests/pubsub_core/broker/test_core.py::"
        "test_what_cannot_be_sent_to_one_client_is_in_the_way_of_no_other_and_of_no_publisher",
        "pubsub_core/broker/core.py",
        "            self._send(session, lambda session: self._dispatcher.flush(session, self._holds.types))\n",
        "            self._dispatcher.flush(session, self._holds.types)\n",
    ),
    without(
        f"{_HISTORY}test_rules.py::"
        "test_what_rules_make_of_an_event_as_it_is_published_is_replayed_and_the_event_is_only_kept[sqlite]",
        "pubsub_core/broker/core.py",
        "        recorder.record(admitted.routed, done, admitted.replaced)\n",
        "        recorder.record(admitted.published, done)\n",
    ),
    without(
        "tests/pubsub_core/rules/test_transformation.py::"
        "test_noises_of_two_rules_or_of_two_events_do_not_cancel_out",
        "pubsub_core/rules/transformation.py",
        'scene.draw("perturb", name, self.name, self.most)',
        'scene.draw("perturb", name, self.name)',
    ),
    without(
        f"{_HISTORY}storage/test_store_queries.py::"
        "test_a_chain_that_was_cut_off_shows_although_its_ends_were_adapted[sqlite-statements0]",
        "pubsub_core/history/storage/chain_ends.py",
        "        if found is None:\n            raise HistoryDamaged(type_)\n        return found\n",
        "        return found or (self._vault.newest, bytes(sealed or b''))\n",
    ),
    without(
        f"{_HISTORY}storage/test_rekeying.py::"
        "test_whoever_has_not_heard_of_the_new_key_writes_nothing_and_reads_nothing[sqlite]",
        "pubsub_core/history/storage/store.py",
        "            if self._ends.opens(connection, type_):",
        "            if True:",
    ),
    without(
        f"{_HISTORY}storage/test_rekeying.py::test_what_was_altered_is_found_and_not_sealed_anew"
        "[sqlite-DELETE FROM {} WHERE sequence = 15]",
        "pubsub_core/history/storage/rekeying.py",
        "                if found is None or found[0].link(old, bytes(each.body), place) != bytes(each.link):\n",
        "                if found is None:\n",
    ),
    without(
        "tests/pubsub_core/test_hours_and_rates.py::"
        "test_a_rate_is_counted_for_a_client_however_often_it_subscribes",
        "pubsub_core/broker/reauthorization.py",
        "        return Enforcement(left, self._generic, tuple(judges), client, self.ledger)\n",
        "        return Enforcement(left, self._generic, tuple(judges), client)\n",
    ),
    without(
        "tests/pubsub_core/test_hours_and_rates.py::"
        "test_outside_its_hours_a_grant_delivers_and_publishes_nothing",
        "authz/spki/use.py",
        "    if not all(window.holds(use.at) for window in grant.windows):\n",
        "    if False:\n",
    ),
    without(
        "tests/pubsub_core/test_costly_filters.py::"
        "test_a_costly_filter_is_refused_and_others_are_served_meanwhile",
        "pubsub_core/types/filter_binding.py",
        "        check_cost(predicate)\n",
        "        pass\n",
    ),
    without(
        "tests/pubsub_core/test_costly_filters.py::"
        "test_of_a_filter_nobody_is_told_more_than_that_it_is_not_permitted_to_subscribe",
        "pubsub_core/server/rpc_handlers.py",
        "        await asyncio.to_thread(parse_filter, call.filter)\n",
        "        check_filter(call.filter, self._broker.setting.catalogue.names(definition.version))\n",
    ),
    without(
        f"{_CONFINED}test_functions_find_no_secrets_in_the_environment",
        "pubsub_core/functions/functions_service.py",
        "env=ENVIRONMENT | {name: os.environ[name] for name in PASSED_ON if name in os.environ}",
        "env=ENVIRONMENT | os.environ",
    ),
    without(
        f"{_CONFINED}test_functions_read_nothing_but_their_package_and_libraries",
        "pubsub_core/functions/confinement.py",
        "    _limit_files(libc, paths)\n",
        "",
    ),
    without(
        f"{_CONFINED}test_functions_change_no_files",
        "pubsub_core/functions/confinement.py",
        _FILTER,
        "",
        Edit("pubsub_core/functions/confinement.py", "    _limit_files(libc, paths)\n", ""),
    ),
    without(
        f"{_CONFINED}test_functions_open_no_connections_past_python",
        "pubsub_core/functions/confinement.py",
        _FILTER,
        "",
    ),
    without(
        f"{_CONFINED}test_functions_neither_start_nor_signal_nor_trace_processes",
        "pubsub_core/functions/confinement.py",
        _FILTER,
        "",
    ),
    without(
        f"{_CONFINED}test_functions_of_a_broker_can_do_nothing_but_compute",
        "pubsub_core/functions/function_worker.py",
        "        if confine is not None:\n            confine(readable(found))\n",
        "        if confine is not None:\n            functions_of(module)\n            confine(readable(found))\n",
    ),
    without(
        f"{_CONFINED}test_where_the_system_cannot_confine_functions_they_are_refused_unless_that_is_said",
        "pubsub_core/functions/confinement.py",
        "    if result < 0:\n",
        "    if False:\n",
    ),
    without(
        "tests/pubsub_core/functions/test_functions_service.py::test_long_answers_and_questions_fill_no_memory",
        "pubsub_core/functions/functions_service.py",
        "if plain and size <= MAX_REMEMBERED_BYTES:",
        "if plain:",
    ),
    without(
        f"{_CONFINED}test_of_a_folder_of_libraries_functions_read_nothing_but_those",
        "pubsub_core/functions/function_worker.py",
        'yield from map(str, Path(folder).glob("*.so*"))',
        "yield folder",
    ),
    without(
        f"{_CONFINED}test_nothing_beside_the_functions_is_loaded_before_they_are_confined",
        "pubsub_core/functions/function_worker.py",
        "    means = runpy.run_path(",
        "    sys.path.insert(0, os.getcwd())\n    means = runpy.run_path(",
    ),
    without(
        f"{_CONFINED}test_where_a_broker_runs_in_the_folder_of_its_environment_functions_do_not_read_it",
        "pubsub_core/functions/function_worker.py",
        'for name in ("lib", "lib64")]',
        'for name in ("",)]',
        Edit(
            "pubsub_core/functions/function_worker.py",
            "        limit(memory)\n",
            "        sys.path.insert(0, here)\n        limit(memory)\n",
        ),
    ),
    without(
        "tests/pubsub_core/functions/test_functions_service.py::"
        "test_one_that_reads_no_further_question_does_not_hold_its_broker_up",
        "pubsub_core/functions/functions_service.py",
        "if left <= 0 or not select.select([], [target], [], left)[1]:",
        "if not select.select([], [target], [])[1]:",
    ),
    without(
        "tests/pubsub_core/test_durable.py::test_it_belongs_to_its_subject",
        "pubsub_core/server/durable_service.py",
        "{_digest(credential.domain, credential.name)}",
        "{_digest(credential.domain)}",
    ),
    without(
        "tests/pubsub_core/test_durable.py::test_rights_that_are_taken_back_stop_it_until_they_are_given_again",
        "pubsub_core/broker/reauthorization.py",
        "            self._broker.subscriptions.connect(subscription, parts)\n",
        "            self._broker.subscriptions.connect(subscription, parts) if parts else None\n",
    ),
    without(
        "tests/pubsub_core/test_durable.py::test_one_whose_record_was_spoilt_is_refused_and_others_are_not",
        "pubsub_core/server/durable_service.py",
        "    except UNREADABLE:\n        return None\n",
        "    except KeyError:\n        return None\n",
    ),
    without(
        "tests/authfabric/commands/events/test_event_bridge.py::"
        "test_members_that_are_attributes_are_published_and_what_is_no_event_is_counted",
        "authfabric/commands/events/event_bridge.py",
        "        except UNREADABLE as error:\n",
        "        except ValueError as error:\n",
    ),
    without(
        "tests/authfabric/applications/test_steps.py::"
        "test_a_broker_that_is_taken_out_is_trusted_and_given_keys_no_more",
        "authfabric/applications/steps.py",
        "            await self._store.dismiss(self._folder, broker)\n",
        "",
    ),
]
