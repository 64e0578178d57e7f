"""Defences of taking rights back, and of what a key is entitled to for a while."""

from __future__ import annotations

from tests.mutations.mutation import Edit, without

_LIMITS = "tests/pdp/access/test_service_limits.py::"
_REVOCATION = "tests/pdp/access/test_service_revocation.py::"
_CONTROL = "tests/pdp/access/test_control.py::"
_DOMAIN_REVOCATION = "tests/authfabric/processes/test_domain_revocation.py::"
_ROTATION = "tests/authfabric/deployment/test_rotation.py::"
_ISSUING = "tests/pdp/access/test_issuing_service.py::"

REVOCATION = [
    without(
        f"{_ROTATION}test_a_key_is_exchanged_while_members_are_let_in_as_ever",
        "pdp/access/rotation.py",
        "newer = replace(domain, before=None)",
        "newer = domain",
    ),
    without(
        f"{_ROTATION}test_a_key_is_exchanged_while_members_are_let_in_as_ever",
        "pdp/access/rotation.py",
        "if not folder.file.exchanged:",
        "if True:",
        Edit("pdp/access/rotation.py", "(folder.path / _BEFORE).unlink(missing_ok=True)", "pass"),
    ),
    without(
        f"{_DOMAIN_REVOCATION}"
        "test_what_a_new_key_has_lent_to_the_one_before_counts_no_more_when_that_is_exchanged",
        "pdp/access/rotation.py",
        "if not folder.file.exchanged:",
        'if folder.file.exchanged != "service":',
    ),
    without(
        f"{_DOMAIN_REVOCATION}"
        "test_a_key_that_is_revoked_while_the_services_is_exchanged_is_out_with_what_both_gave",
        "pdp/access/rotation.py",
        "return both if issuer in both else (issuer,)",
        "return (issuer,)",
    ),
    without(
        f"{_DOMAIN_REVOCATION}"
        "test_a_domain_that_is_revoked_while_the_key_of_the_one_above_is_exchanged_is_out_with_what_both_gave",
        "pdp/access/rotation.py",
        'file.owner if file.exchanged == "domain" else file.service',
        "file.service",
    ),
    without(
        f"{_DOMAIN_REVOCATION}"
        "test_a_key_that_was_revoked_is_enrolled_by_no_key_that_takes_the_place_of_the_services",
        "pdp/access/rotation.py",
        "    _revoke_anew(folder, fresh, before.public, at)\n",
        "",
    ),
    without(
        f"{_REVOCATION}TestRevocation::test_it_disconnects_at_once_and_for_good",
        "pdp/access/service.py",
        "            self._system.disconnect(server, number)\n",
        "            pass\n",
    ),
    without(
        f"{_REVOCATION}TestRevocation::test_it_disconnects_at_once_and_for_good",
        "pdp/access/service.py",
        "        self.control.accept(notice, self._clock())\n",
        "",
    ),
    without(
        f"{_REVOCATION}TestClusters::test_links_between_servers_are_verified_and_revocation_reaches_all_of_them",
        "bus/server/system_account.py",
        'f"$SYS.REQ.SERVER.{server}.KICK", msgspec.json.encode({"cid": number}), self._nowhere',
        '"$SYS.REQ.SERVER.NEAREST.KICK", msgspec.json.encode({"cid": number}), self._nowhere',
    ),
    without(
        f"{_REVOCATION}TestRevocation::test_everything_below_a_revoked_certificate_falls_with_it",
        "pdp/access/control.py",
        "links = (link for each in proved for link in each.links)",
        "links = (link for each in proved for link in each.links[-1:])",
    ),
    without(
        f"{_REVOCATION}TestRevocation::test_one_by_a_key_that_issued_nothing_changes_nothing",
        "authz/spki/reduction.py",
        "revocations.revoker(self.ids, self.revokers)",
        "revocations.revoker(self.ids, revocations.revoked)",
    ),
    without(
        f"{_REVOCATION}TestRevocation::test_one_by_a_key_that_issued_nothing_changes_nothing",
        "pdp/access/control.py",
        "hashlib.blake2b(id_ + revoker.raw, digest_size=_MARK_BYTES)",
        "hashlib.blake2b(id_, digest_size=_MARK_BYTES)",
    ),
    without(
        f"{_DOMAIN_REVOCATION}test_a_revoked_member_is_out_with_everything_that_was_renewed",
        "authz/spki/reduction.py",
        "ids = (certificate.id, key_id(capability.subject))",
        "ids = (certificate.id,)",
    ),
    without(
        f"{_DOMAIN_REVOCATION}test_a_revoked_member_is_out_with_everything_that_was_renewed",
        "pdp/access/control.py",
        "for by in link.revokers for id_ in link.ids)",
        "for by in link.revokers for id_ in link.ids[:1])",
    ),
    without(
        f"{_ISSUING}test_a_detective_whose_key_is_revoked_loses_what_a_role_gave_and_is_given_nothing_more",
        "pdp/access/issuing_service.py",
        "if revocations.has_revoked(self._issuer.service.public, key):",
        "if False:",
    ),
    without(
        f"{_REVOCATION}TestRevocation::test_that_of_a_key_is_of_what_its_issuer_gave_it_and_of_nothing_else",
        "pdp/access/control.py",
        "hashlib.blake2b(id_ + revoker.raw, digest_size=_MARK_BYTES)",
        "hashlib.blake2b(id_, digest_size=_MARK_BYTES)",
    ),
    without(
        f"{_DOMAIN_REVOCATION}test_a_replica_with_an_older_folder_renews_nobody_who_was_revoked",
        "pdp/access/issuing_service.py",
        "if revocations.has_revoked(self._issuer.service.public, key):",
        "if False:",
    ),
    without(
        f"{_REVOCATION}TestReplicas::test_one_that_cannot_read_revocations_renews_nobody_and_lets_nobody_new_in",
        "pdp/access/issuing_service.py",
        "revocations = await self._revocations()",
        "revocations = Revocations()",
    ),
    without(
        f"{_REVOCATION}TestReplicas::test_one_that_cannot_read_revocations_renews_nobody_and_lets_nobody_new_in",
        "pdp/access/service.py",
        "if age > rules.revocations_seconds:",
        "if False:",
    ),
    without(
        f"{_DOMAIN_REVOCATION}test_a_revoked_key_is_out_under_all_its_names_and_is_enrolled_under_no_other",
        "pdp/access/domain_store.py",
        "if self._revocation(capability.issuer, capability.subject).exists():",
        "if False:",
    ),
    without(
        f"{_DOMAIN_REVOCATION}test_whoever_was_revoked_stays_out_though_the_servers_have_lost_their_store",
        "pdp/access/domain_store.py",
        "            control.accept(notice, notice.at)\n",
        "            pass\n",
    ),
    without(
        f"{_DOMAIN_REVOCATION}test_what_is_revoked_while_nobody_serves_is_heeded_by_whoever_serves_next",
        "pdp/access/service.py",
        "        self._end_revoked(page)\n        self._put_out(page)\n",
        "        self._put_out(page)\n",
    ),
    without(
        f"{_DOMAIN_REVOCATION}test_a_member_in_a_network_that_its_domain_joined_is_put_out_there",
        "authfabric/processes/domain_process.py",
        "            await _tell(where, notice)\n",
        "            pass\n",
    ),
    without(
        f"{_REVOCATION}TestRevocation::test_a_forged_one_is_refused",
        "authz/spki/revocation.py",
        "        self.issuer.verify(self.signature, self._signed())\n",
        "",
    ),
    without(
        f"{_REVOCATION}TestFloods::test_notices_of_made_up_keys_are_not_stored_and_genuine_ones_count_at_once",
        "pdp/access/notice_store.py",
        "            self._control.check_revoker(notice.issuer, chain, self._clock())\n",
        "            pass\n",
    ),
    without(
        f"{_REVOCATION}TestFloods::test_whoever_empowers_made_up_keys_has_so_many_notices_stored_and_takes_no_room_from_others",
        "bus/feeds/revocations.py",
        "        raise NoRoom(most)\n",
        "        pass\n",
    ),
    without(
        f"{_REVOCATION}TestFloods::test_nobody_submits_in_the_place_of_another",
        "bus/server/subject_permissions.py",
        "{subjects.revoke(place)}",
        '{subjects.revoke("*")}',
    ),
    without(
        "tests/bus/services/test_responder.py::test_one_who_floods_keeps_nobody_else_from_being_answered",
        "bus/services/responder.py",
        " or asked[subject] >= limits.each",
        "",
    ),
    without(
        f"{_REVOCATION}TestReplicas::test_one_that_starts_later_ends_what_was_revoked_meanwhile",
        "pdp/access/service.py",
        "RevocationFeed(self.member, self._heed)",
        "RevocationFeed(self.member, lambda notice: None)",
    ),
    without(
        f"{_REVOCATION}TestReplicas::test_while_none_is_up_nobody_new_comes_in_and_those_inside_stay",
        "bus/server/server_config.py",
        '"accounts {\\n"',
        '"" if True else "accounts {\\n"',
    ),
    without(
        "tests/bus/nats/test_renewal.py::test_without_anybody_to_renew_it_a_connection_lives_to_its_end_and_comes_back_after",
        "bus/server/callout_tokens.py",
        'claims["exp"] = int(admission.until)',
        "pass",
    ),
]

ENTITLEMENT = [
    without(
        f"{_ISSUING}test_whoever_is_struck_off_is_out_when_it_ends",
        "pdp/access/entitlement.py",
        'raise NotEntitledHere(f"`{key}` is no member of this domain, or is no longer")',
        "return Entitlement(__import__('authz.spki').spki.parse_authority('network: *\\naction: connect'))",
    ),
    without(
        f"{_ISSUING}test_an_active_role_becomes_a_capability_that_ends_with_the_session",
        "pdp/access/issuing_service.py",
        "            self._changed.put_nowait((session, False))\n",
        "            pass\n",
    ),
    without(
        f"{_ISSUING}test_whichever_replica_hears_of_it_revokes_what_another_gave",
        "pdp/access/issuing_service.py",
        "                await self._ledger.note(request.session, certificate)\n",
        "                pass\n",
    ),
    without(
        f"{_ISSUING}test_a_replica_that_starts_later_revokes_what_should_have_been",
        "pdp/access/issuing_service.py",
        "for work in (self._look_at_all, self._look_again):",
        "for work in (self._look_again,):",
    ),
    without(
        f"{_ISSUING}test_a_tls_certificate_is_renewed_before_it_ends_and_no_request_is_lost",
        "bus/nats/renewal.py",
        "if answer.certificate:",
        "if False:",
    ),
    without(
        f"{_ISSUING}test_a_session_is_of_no_use_to_another_key",
        "pdp/access/entitlement.py",
        "if view is None or view.key != str(key):",
        "if view is None:",
    ),
    without(
        "tests/bus/identity/test_credentials_store.py::TestFinding::"
        "test_whoever_has_credentials_for_other_servers_does_not_connect_in_clear",
        "bus/identity/credentials_store.py",
        "    if not named:\n",
        "    if True:\n",
    ),
    without(
        f"{_LIMITS}TestStreams::"
        "test_who_provides_or_decides_in_one_domain_reaches_nothing_of_anothers_roles_and_attributes",
        "bus/server/role_subjects.py",
        'return f"{subjects.ROOT}.attributes.{network}.*"',
        'return f"{subjects.ROOT}.attributes.*.*"',
    ),
    without(
        f"{_LIMITS}TestStreams::"
        "test_who_provides_or_decides_in_one_domain_reaches_nothing_of_anothers_roles_and_attributes",
        "bus/server/role_subjects.py",
        '.changed",\n        subjects.written(subjects.ROLES, f"{network}.>"),',
        '.changed",\n        subjects.written(subjects.ROLES, ">"),',
    ),
    without(
        f"{_LIMITS}TestStreams::test_who_writes_its_own_entries_purges_nobody_elses_by_a_header",
        "bus/stores/release_store.py",
        "allow_rollup_hdrs=False,",
        "allow_rollup_hdrs=True,",
        Edit("bus/stores/release_store.py", " and not config.allow_rollup_hdrs:", ":"),
    ),
    without(
        f"{_CONTROL}TestTheLoop::test_a_key_that_is_claimed_and_not_proved_is_not_named",
        "pdp/access/control.py",
        "    except InvalidKey:  # what a stranger wrote is not for the log\n",
        "    except InvalidSignature:\n",
    ),
    without(
        "tests/bus/identity/test_credentials_store.py::test_one_that_others_can_read_is_refused",
        "bus/identity/keystore.py",
        'if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):',
        "if False:",
    ),
    without(
        "tests/bus/identity/test_keystore.py::test_the_passphrase_alone_does_not_open_the_pem_inside",
        "bus/identity/keystore.py",
        "    return stretched.hex().encode()\n",
        "    return passphrase.encode()\n",
    ),
    without(
        "tests/authfabric/processes/test_domain_revocation.py::"
        "test_a_network_that_cannot_be_told_keeps_nobody_in_another",
        "authfabric/processes/domain_process.py",
        "{folder.file.name: Found(url, own), **joined}.items()",
        "{**joined, folder.file.name: Found(url, own)}.items()",
        Edit(
            "authfabric/processes/domain_process.py",
            "            pending[network] = error\n",
            "            raise RevocationPending(folder, network, error) from None\n",
        ),
    ),
    without(
        "tests/authfabric/deployment/test_nodes.py::"
        "test_the_keys_that_replicas_had_before_are_revoked_although_others_have_their_names",
        "authfabric/deployment/node_folder.py",
        "        self.folder.replace(name)\n",
        "        self.folder.forget(name)\n",
    ),
]
