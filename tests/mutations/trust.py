"""How to take away what defends trust: among brokers, in brokers and in managers of keys."""

from __future__ import annotations

from tests.mutations.mutation import Edit, Mutation, without

_FLOODS = "tests/pubsub_core/trust/test_vouch_floods.py::"
_MANAGERS = "tests/pubsub_core/key_groups/test_manager_service.py::"
_CLIENTS = "tests/pubsub_core/trust/test_client_trust.py::"
_WORDS = "tests/pubsub_core/trust/test_vouches.py::"
_WEB = "tests/pubsub_core/trust/test_broker_trust.py::"

TRUST: list[Mutation] = [
    without(
        f"{_FLOODS}test_a_stranger_who_vouches_without_end_does_not_stop_brokers_from_hearing_each_other",
        "pubsub_core/trust/vouches.py",
        "if claim.signer not in self._steps:",
        "if False:",
        Edit("pubsub_core/trust/vouches.py", "len(mine) < MAX_WORDS_EACH", "True"),
        Edit(
            "pubsub_core/trust/vouches.py", "        if len(mine) > MAX_WORDS_EACH:\n", "        if False:\n"
        ),
        Edit("pubsub_core/trust/vouches.py", "if self._rank(each) > MAX_STEPS]:", "if False]:"),
    ),
    without(
        f"{_FLOODS}test_a_broker_that_vouches_without_end_is_distrusted_all_the_same",
        "pubsub_core/trust/vouches.py",
        "return claim.said.withdrawn or len(mine) < MAX_WORDS_EACH",
        "return len(self._known) < 1_000",
    ),
    without(
        f"{_FLOODS}test_a_stranger_with_a_name_of_any_length_is_in_nobodys_way",
        "pubsub_core/carriage/records.py",
        "MAX_NAME_LENGTH = 128\n",
        "MAX_NAME_LENGTH = 10**9\n",
    ),
    without(
        f"{_WORDS}test_words_of_strangers_are_neither_kept_nor_handed_on",
        "pubsub_core/trust/vouches.py",
        "if claim.signer not in self._steps:",
        "if False:",
    ),
    without(
        f"{_WORDS}test_a_withdrawal_fits_into_a_quota_that_is_used_up",
        "pubsub_core/trust/vouches.py",
        "return claim.said.withdrawn or len(mine) < MAX_WORDS_EACH",
        "return len(mine) < MAX_WORDS_EACH",
    ),
    without(
        f"{_WORDS}test_where_all_are_too_many_those_nearest_to_the_owner_stay",
        "pubsub_core/trust/vouches.py",
        "(self._rank(each), place, each.data)",
        "(0, -place, each.data)",
    ),
    without(
        f"{_WORDS}test_whoever_has_taken_back_more_than_is_kept_vouches_for_nobody",
        "pubsub_core/trust/vouches.py",
        "        return self.said.withdrawn, self.said.made, self.said.until\n",
        "        return not self.said.withdrawn, self.said.made, self.said.until\n",
    ),
    without(
        f"{_WORDS}test_a_withdrawal_outlasts_the_trust_in_whoever_made_it",
        "pubsub_core/trust/vouches.py",
        "MAX_STEPS + (not word.said.withdrawn)",
        "MAX_STEPS + 1",
    ),
    without(
        f"{_WORDS}test_what_is_handed_on_fits_and_all_of_it_has_its_turn_with_news_first",
        "pubsub_core/trust/vouches.py",
        "sorted(self._news, key=self._step)",
        "sorted(self._news)",
    ),
    without(
        f"{_MANAGERS}test_a_manager_that_was_dismissed_does_not_come_back_when_a_broker_restarts",
        "pubsub_core/key_groups/appointment_store.py",
        "        if self._path is None:\n            return {}\n",
        "        return {}\n",
    ),
    without(
        f"{_MANAGERS}test_a_broker_that_cannot_tell_who_was_dismissed_believes_no_manager",
        "pubsub_core/key_groups/appointment_store.py",
        "            raise ManagersUnknown(self._path, problem) from error\n",
        "            return {}\n",
    ),
    without(
        f"{_MANAGERS}test_nobody_is_admitted_before_it_is_known_what_was_revoked",
        "pubsub_core/key_groups/manager_service.py",
        "            while not await feed.first_look(PATIENCE):  # until then, nobody is answered\n"
        "                continue\n",
        "            await feed.first_look(PATIENCE)\n",
        Edit(
            "pubsub_core/key_groups/manager_service.py",
            "if self._feed is None or not self._feed.read.is_set():",
            "if False:",
        ),
    ),
    without(
        f"{_MANAGERS}test_nobody_is_admitted_before_it_is_known_what_was_revoked",
        "pubsub_core/key_groups/manager_service.py",
        "if self._feed is None or not self._feed.read.is_set():",
        "if False:",
    ),
    without(
        "tests/pubsub_core/test_restricting.py::"
        "test_no_capability_counts_while_it_is_not_known_what_was_revoked",
        "pubsub_core/server/service.py",
        "            self._rights.doubt = lambda: self._revocations.problem\n",
        "",
    ),
    without(
        f"{_CLIENTS}test_a_broker_that_nobody_vouches_for_is_neither_told_anything_nor_believed",
        "pubsub_core/trust/client_trust.py",
        "        if not _trusts(web, key, type_, now):\n",
        "        if False:\n",
    ),
    without(
        f"{_CLIENTS}test_the_owner_of_a_type_vouches_for_it_alone_where_the_client_trusts_the_owner",
        "pubsub_core/trust/client_trust.py",
        "frozenset({type_.owner} if type_.owner_key in self._owners else ())",
        "frozenset({type_.owner})",
    ),
    without(
        f"{_CLIENTS}"
        "test_what_a_client_publishes_does_not_go_to_a_false_broker_that_takes_the_place_of_its_own",
        "pubsub_core/client/session.py",
        "            await self._verify_again(self._trust.used, met._replace(session=answer.session))\n",
        "            pass\n",
        Edit(
            "pubsub_core/trust/client_trust.py", "            if verified != key or not", "            if not"
        ),
    ),
    without(
        f"{_CLIENTS}test_a_vouch_that_runs_out_ends_the_session_unless_there_is_another",
        "pubsub_core/client/session.py",
        "        await self._verify_again(self._trust.lapsed(self._key, time()))\n",
        "",
    ),
    without(
        f"{_CLIENTS}test_a_broker_cut_off_from_an_owner_delivers_nothing_of_it_after_a_restart_either",
        "pubsub_core/trust/broker_trust.py",
        "return owner not in self.expected and",
        "return",
    ),
    without(
        f"{_CLIENTS}test_an_owner_that_promised_heartbeats_is_out_of_reach_until_it_is_heard_at_every_start",
        "pubsub_core/trust/broker_trust.py",
        "and owner not in self.words.promised",
        "",
    ),
    without(
        f"{_CLIENTS}"
        "test_a_type_that_is_learned_is_not_delivered_before_it_was_looked_at_whether_its_owner_is_heard",
        "pubsub_core/broker/core.py",
        "if not self.presence.within_reach(id_)\n",
        "if id_ in self.counts.gaps\n",
    ),
    without(
        f"{_CLIENTS}test_a_promise_of_heartbeats_counts_as_soon_as_the_type_and_the_vouch_are_there",
        "pubsub_core/carriage/presence.py",
        "        setting.catalogue.on_accept.append(self._learn_owner)\n",
        "",
    ),
    without(
        f"{_WEB}test_a_promise_that_a_broker_was_started_with_outlasts_the_vouch",
        "pubsub_core/trust/vouches.py",
        "{**self._given.get(by, {}), **self._by.get(by, {})}",
        "self._by.get(by, {})",
    ),
    without(
        f"{_WEB}test_nobody_promises_heartbeats_for_somebody_else",
        "pubsub_core/trust/broker_trust.py",
        "and owner not in self.words.promised",
        "and not self.words.promised",
    ),
    without(
        "tests/pubsub_core/test_sessions.py::"
        "test_what_a_domain_signs_about_a_client_of_another_does_not_count",
        "pubsub_core/trust/credential.py",
        "if signer not in self._trusted.get(credential.domain, ()):",
        "if not any(signer in keys for keys in self._trusted.values()):",
    ),
]
