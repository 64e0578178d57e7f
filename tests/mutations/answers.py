"""The defences of answers: who is believed, about what, for which question, and what is learned and recorded of it."""

from __future__ import annotations

from tests.mutations.mutation import Edit, Mutation, without

_PEP = "tests/pep/trust/test_authenticity.py::"
_ANNOUNCEMENTS = "tests/pep/test_announcements.py::"
_AUTHORITY = "tests/pep/test_authority.py::"
_WATCH = "tests/pep/trust/test_revocation_watch.py::"
_TRUST = "tests/pep/trust/test_trust_store.py::"
_NOBODY = (
    "pep/trust/trust_store.py",
    "    if not keys:\n        raise NobodyTrusted(address, nothing_here=running is None and address == DEFAULT_URL)\n",
    "",
)
"""Where nothing says whom to believe, everybody is."""
_DECIDERS = "tests/authz/authority/test_deciders.py::"
_LEARNING = "tests/sdp_cache/point/test_learning.py::"
_ROLES = "tests/sdp_cache/inference/test_saam_rbac.py::TestRolesThatPdpsLookUp::"
_VOUCHERS = "tests/bus/audit/test_vouchers.py::"
_MASKED = "tests/authfabric/test_masked_audit.py::"
_AUDIT = "tests/bus/audit/test_writer_service.py::"

_TAGGED = "keyed.update(lengths + where + question + answer)"
_ANY_QUESTION = Edit("authz/crypto/agreement.py", _TAGGED, "keyed.update(lengths + where + answer)")
_ANY_TAG = Edit(
    "pep/trust/authenticity.py", "if not decider.mac.holds(tag, subject, question, answer):", "if False:"
)

TAGS = [
    Mutation(f"{_PEP}test_a_forged_answer_is_refused_and_the_true_one_is_taken", (_ANY_TAG,)),
    without(
        f"{_PEP}test_a_forged_answer_is_refused_and_the_true_one_is_taken[plain]",
        "pep/asking/attempts.py",
        "elif authenticity is None:",
        'elif authenticity is None or payload[:1] != b"\\xa1":',
    ),
    without(
        f"{_PEP}test_a_forged_answer_is_refused_and_the_true_one_is_taken[by a stranger]",
        "pep/trust/authenticity.py",
        "decider = self.deciders.get(sender, time())",
        "decider = next(iter(self.deciders._known.values()))",
        _ANY_TAG,
    ),
    without(
        f"{_PEP}test_an_answer_that_was_altered_on_the_way_is_refused",
        "authz/crypto/agreement.py",
        _TAGGED,
        "keyed.update(lengths + where + question)",
    ),
    Mutation(f"{_PEP}test_a_true_answer_cannot_be_replayed_to_the_same_question", (_ANY_QUESTION,)),
    without(
        f"{_PEP}test_no_two_questions_are_the_same_even_if_asked_at_the_same_instant",
        "pep/asking/attempts.py",
        "authenticity.asker, number, trace))",
        "authenticity.asker, 0, trace))",
    ),
    without(
        f"{_PEP}test_an_answer_to_one_pep_is_of_no_use_to_another",
        "authz/authority/deciders.py",
        "self._own = AgreementKey.generate()",
        "self._own = AgreementKey.of(__import__('authz').Identity.from_seed(bytes(32)))",
        _ANY_QUESTION,
    ),
    without(
        f"{_PEP}test_a_question_cannot_be_moved_to_another_domain",
        "authz/crypto/agreement.py",
        "keyed, where = self._keyed.copy(), subject.encode()",
        'keyed, where = self._keyed.copy(), b""',
    ),
    Mutation(
        f"{_PEP}test_an_answer_that_is_held_back_beyond_the_deadline_is_good_for_nothing", (_ANY_QUESTION,)
    ),
    without(
        "tests/authz/crypto/test_agreement.py::test_what_is_no_point_or_one_that_fixes_the_secret_is_refused",
        "authz/crypto/agreement.py",
        'raise InvalidKey("an agreement key must be a point of Curve25519, in 32 bytes") from None',
        "return bytes(32)",
    ),
]

_WITHDRAWN = (
    "tests/pep/test_withdrawals.py::TestWithdrawal::test_one_that_is_old_or_of_another_counts_for_nothing"
)
_ANNOUNCED = f"{_ANNOUNCEMENTS}test_nobody_leads_questions_to_himself_by_announcing_what_he_may_not"

ANNOUNCEMENTS = [
    without(
        _ANNOUNCED,
        "pep/asking/asker.py",
        "return self.authenticity.announced(announcement)",
        "self.authenticity.introduce(announcement.introduction)",
    ),
    without(
        f"{_ANNOUNCED}[one in the PDP's name]",
        "pep/trust/authenticity.py",
        "decider.key.verify(announcement.signature, announcement.signed())",
        "pass",
    ),
    without(
        f"{_ANNOUNCED}[one beyond its right]",
        "pep/trust/authenticity.py",
        "if decider.may_decide_under(_objects(scope))]",
        "]",
    ),
    without(
        f"{_ANNOUNCED}[one of yesterday]",
        "pep/trust/authenticity.py",
        "if abs(now - announcement.at) > SKEW_SECONDS:",
        "if False:",
    ),
    without(
        f"{_ANNOUNCEMENTS}test_no_pdp_can_take_the_room_for_the_scopes_of_another",
        "bus/wire/scopes.py",
        "if self._counts[announcer] >= self._limit:",
        "if False:",
    ),
    without(
        f"{_WITHDRAWN}[of another]",
        "bus/wire/scopes.py",
        "if self._charged.get(scope) == announcer]",
        "]",
    ),
    without(
        f"{_WITHDRAWN}[replayed]",
        "pep/asking/asker.py",
        "if at < self._announced_at.get(announcer, 0.0):",
        "if False:",
    ),
]

SILENCE = [
    without(
        f"{_ANNOUNCEMENTS}test_nobody_can_end_a_question_by_saying_that_nobody_listens[False]",
        "pep/asking/attempts.py",
        "elif self._asker.authenticity is not None:",
        "elif False:",
    ),
    without(
        f"{_ANNOUNCEMENTS}test_nobody_can_end_a_question_by_saying_that_nobody_listens[True]",
        "pep/asking/attempts.py",
        "doubted, self._replies = self._replies, []",
        "return []",
    ),
    without(
        f"{_ANNOUNCEMENTS}test_a_flood_of_such_words_makes_a_pep_ask_no_more_often",
        "pep/asking/attempts.py",
        "if self._asked_all or self._over:",
        "if False:",
    ),
]

AUTHORITY = [
    without(
        f"{_AUTHORITY}test_no_spelling_of_an_object_steps_around_an_exception",
        "authz/spki/resource.py",
        "return _plain(kind, name) and not any(",
        "return not any(",
    ),
    without(
        f"{_AUTHORITY}test_no_spelling_of_an_object_steps_around_an_exception",
        "authz/spki/resource.py",
        'if not narrow.pattern.endswith("*") and not wide.matches(self.kind, narrow.pattern):',
        "if False:",
    ),
    without(
        f"{_AUTHORITY}test_a_pdp_is_believed_only_about_what_it_may_decide",
        "authz/authority/deciders.py",
        "self._everything = any(_is_everything(each) for each in self._plain)",
        "self._everything = True",
    ),
    without(
        f"{_AUTHORITY}test_a_pdp_whose_right_ended_or_came_from_nobody_trusted_is_not_believed",
        "authz/spki/reduction.py",
        "if validity.end is not None and at >= validity.end:",
        "if False:",
    ),
    without(
        f"{_AUTHORITY}test_a_pdp_whose_right_ended_or_came_from_nobody_trusted_is_not_believed",
        "authz/authority/deciders.py",
        "        for verifier in self._verifiers:\n            try:\n",
        "        from authz.spki.capability import decode_chain\n"
        "        anybody = decode_chain(introduction.chain)[0].issuer\n"
        '        everything = Resource.of(Kind.OBJECT, "*")\n'
        "        for verifier in [*self._verifiers, Verifier(Owners([(everything, anybody)]))]:\n            try:\n",
    ),
    without(
        f"{_AUTHORITY}test_a_compromised_pdp_that_is_revoked_under_load_is_not_believed_from_then_on",
        "pep/trust/revocation_watch.py",
        "RevocationFeed(connection, authenticity.revoke, issuer)",
        "RevocationFeed(connection, lambda notice: None, issuer)",
    ),
    without(
        f"{_TRUST}test_a_pep_that_was_told_of_nobody_to_trust_does_not_start",
        *_NOBODY,
    ),
    without(
        f"{_TRUST}test_a_trust_file_that_names_nobody_is_refused",
        "pep/trust/trust_store.py",
        '    if not keys:\n        raise InvalidKey(f"`{path}`',
        '    if False:\n        raise InvalidKey(f"`{path}`',
        Edit(*_NOBODY),
    ),
    without(
        f"{_TRUST}test_on_a_fabric_with_credentials_those_are_believed_whom_they_name",
        "pep/trust/trust_store.py",
        "        keys = credentials.trust\n",
        "        return frozenset()\n",
    ),
    without(
        f"{_WATCH}test_a_flood_of_strangers_notices_hides_no_revocation",
        "pep/trust/revocation_watch.py",
        "RevocationFeed(connection, authenticity.revoke, issuer)",
        "RevocationFeed(connection, authenticity.revoke)",
        Edit(
            "authz/authority/deciders.py",
            "        self._revocations.accept(notice)\n",
            "        if len(self._revocations.lists) < self._most:\n"
            "            self._revocations.accept(notice)\n",
        ),
    ),
    without(
        f"{_WATCH}test_however_long_reading_the_store_takes_nobody_is_believed_before",
        "authz/authority/deciders.py",
        "                self._check_known(introduction, reduced)\n",
        "",
        Edit(
            "bus/feeds/revocations.py",
            "if not self.read.is_set() and self._seen == before:",
            "if not self.read.is_set():",
        ),
    ),
    without(
        f"{_WATCH}test_a_pep_that_cannot_read_revocations_believes_nobody_new_and_says_why",
        "authz/authority/deciders.py",
        "                self._check_known(introduction, reduced)\n",
        "",
    ),
    without(
        f"{_WATCH}test_whoever_names_issuer_after_issuer_takes_no_room_from_others",
        "pep/trust/revocation_watch.py",
        "if by not in self._roots and len(group) >= MAX_FOLLOWED:",
        "if False:",
    ),
    without(
        "tests/authfabric/test_answers.py::"
        "test_a_replica_is_believed_as_far_as_its_capability_goes_and_until_it_is_revoked",
        "bus/feeds/revocations.py",
        "if not record.data:",
        "if not record.data or not self.read.is_set():",
    ),
    without(
        f"{_AUTHORITY}test_a_stolen_chain_is_of_no_use_without_its_key",
        "authz/authority/introduction.py",
        "if subject.raw != self.key:",
        "if False:",
    ),
    without(
        f"{_AUTHORITY}test_a_stolen_chain_is_of_no_use_without_its_key",
        "authz/authority/introduction.py",
        "PublicKey(self.key).verify(self.signature, self.signed())",
        "pass",
    ),
    without(
        f"{_DECIDERS}test_an_older_introduction_that_is_repeated_changes_nothing",
        "authz/authority/deciders.py",
        "if introduction.at <= known.introduction.at:",
        "if False:",
    ),
    without(
        f"{_DECIDERS}test_there_is_room_for_so_many_and_no_more",
        "authz/authority/deciders.py",
        "if len(self._known) >= self._most and key not in self._known:",
        "if False:",
    ),
    without(
        "tests/pdp/replica/test_answer_authority.py::test_an_answer_is_authentic_to_its_asker_also_after_others_have_taken_its_place",
        "pdp/replica/answer_authority.py",
        "if len(self._macs) >= self._most:",
        "if False:",
    ),
    without(
        f"{_PEP}test_refused_answers_are_reported_but_a_flood_of_them_fills_no_log",
        "pep/trust/authenticity.py",
        "if now >= self._said_at + ALARM_SECONDS:",
        "if True:",
    ),
]

LEARNING = [
    without(
        f"{_ROLES}test_what_a_request_claims_of_roles_does_not_count",
        "sdp_cache/inference/saam_rbac.py",
        "        if self._looked_up and holder is None:\n            return None\n",
        "",
    ),
    without(
        f"{_ROLES}test_roles_are_forgotten_when_they_may_be_relied_on_no_longer",
        "sdp_cache/inference/saam_rbac.py",
        "if holder is not None and now >= holder.roles.until:",
        "if holder is not None and False:",
    ),
    without(
        f"{_LEARNING}test_a_decision_that_was_put_into_a_true_statement_is_not_learned",
        "sdp_cache/point/learning.py",
        "if not vouched:",
        "if False:",
    ),
    without(
        f"{_LEARNING}test_a_statement_that_was_altered_is_not_believed_even_after_the_true_one",
        "sdp_cache/point/learning.py",
        "if statement in self._verified:",
        "if any(each.signer == statement.signer for each in self._verified):",
    ),
    without(
        f"{_LEARNING}test_what_does_not_count_is_not_learned",
        "sdp_cache/point/learning.py",
        "if statement.domain != self._domain:",
        "if False:",
    ),
    without(
        f"{_LEARNING}test_what_does_not_count_is_not_learned",
        "sdp_cache/point/learning.py",
        "if not abs(now - statement.at) <= FRESH_SECONDS:",
        "if False:",
    ),
    without(
        f"{_LEARNING}test_what_does_not_count_is_not_learned",
        "sdp_cache/point/learning.py",
        "return None if decider.may_decide(taught.request, now) else Refusal.OUTSIDE",
        "return None",
    ),
    without(
        f"{_LEARNING}test_what_was_decided_under_another_epoch_is_not_kept",
        "sdp_cache/point/recycler.py",
        "if not asked_at_epoch == decision.epoch == self._log.epoch or decision.inferred is not None:",
        "if decision.inferred is not None:",
    ),
]

LENGTH = [
    without(
        "tests/authz/predicate/test_regex.py::test_whoever_asks_cannot_stall_a_decision_by_a_long_attribute",
        "authz/predicate/compiler.py",
        "search = compile_search(test.pattern)",
        "search = re.compile(test.pattern).search",
    ),
]

AUDIT = [
    without(
        f"{_VOUCHERS}test_a_decision_that_was_recorded_otherwise_than_signed_is_missing",
        "authz/authority/statement.py",
        "leaf_hash(_encode((request, decision)))",
        "leaf_hash(_encode((request,)))",
    ),
    without(
        f"{_VOUCHERS}test_a_statement_that_does_not_hold_vouches_for_nothing",
        "bus/audit/vouchers.py",
        "if decider is None or decider.key.raw != statement.signer:",
        "if decider is None:",
    ),
    without(
        f"{_VOUCHERS}test_a_statement_that_does_not_hold_vouches_for_nothing",
        "bus/audit/vouchers.py",
        "if (Tree(vouched.leaves).root, len(vouched.leaves)) != (statement.root, statement.count):",
        "if False:",
    ),
    without(
        "tests/authfabric/test_audit.py::test_a_service_that_waits_is_denied_while_the_store_takes_nothing",
        "pep/auditing.py",
        "if mark is None or not self._audit.has(mark):",
        "if mark is None:",
    ),
    without(
        "tests/authfabric/test_audit.py::test_nobody_is_let_through_past_the_record_by_what_cannot_be_masked",
        "bus/audit/masking.py",
        " or (nested and not depth)",
        "",
    ),
    without(
        f"{_AUDIT}test_the_store_does_not_have_what_could_not_be_encoded",
        "bus/audit/writer_service.py",
        " and mark not in self.trail.unrecordable",
        "",
    ),
    without(
        f"{_MASKED}test_roles_that_pdps_look_up_are_not_found_by_trying_each_where_they_are_masked",
        "bus/audit/masking.py",
        "if not self._hides_roles and self._masked(request)[0] is request:",
        "if self._masked(request)[0] is request:",
    ),
    without(
        f"{_MASKED}test_what_is_masked_is_nowhere_in_the_stream_cannot_be_guessed_and_still_holds",
        "bus/audit/masking.py",
        "            return MASKED\n",
        "            return value\n",
    ),
    without(
        f"{_MASKED}test_what_is_masked_is_nowhere_in_the_stream_cannot_be_guessed_and_still_holds",
        "bus/audit/masking.py",
        "if not self._hides_roles and self._masked(request)[0] is request:",
        "if True:",
    ),
    without(
        f"{_AUDIT}test_what_is_missing_at_the_end_shows_against_what_the_writer_said",
        "bus/audit/verifier.py",
        "missing = None if known.broken else _missing(known.head, head)",
        "missing = None",
    ),
    without(
        f"{_AUDIT}test_nobody_else_can_say_where_a_chain_ends",
        "bus/audit/records.py",
        ' and writer.endswith("-" + str(signer)[_MARK])',
        "",
    ),
]

RELEASES = [
    without(
        "tests/pep/test_secondary.py::test_a_snapshot_of_another_release_is_refused_and_questions_are_asked"
        "[{'bundle': '" + "0" * 64 + "'}]",
        "sdp_cache/snapshots/snapshot.py",
        "if made != origin:",
        "if made.epoch != origin.epoch:",
    ),
    without(
        "tests/pep/test_secondary.py::test_no_answer_counts_that_is_older_than_the_releases_known_here",
        "pep/secondary.py",
        "lambda: max(at_least, point.epoch))",
        "lambda: at_least)",
    ),
]

ANSWERS: list[Mutation] = [*TAGS, *ANNOUNCEMENTS, *SILENCE, *AUTHORITY, *LEARNING, *LENGTH, *AUDIT, *RELEASES]
