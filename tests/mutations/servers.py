"""How to take away what keeps others from becoming servers of a domain, and members within their limits."""

from __future__ import annotations

from tests.mutations.mutation import Edit, Mutation, without

_TESTS = "tests/authfabric/test_domain_servers.py::"
_LINKS = f"{_TESTS}TestLinks::"
_BELOW = f"{_TESTS}TestDomainsBelow::"

_CERTIFICATES = "bus/identity/certificates.py"
_FILES = "pdp/access/server_store.py"

_ANY_PURPOSE = Edit(
    _CERTIFICATES,
    "        .add_extension(x509.ExtendedKeyUsage(subject.purpose.value), critical=False)\n",
    "",
)
_ANY_HOST = Edit(_CERTIFICATES, "if subject.authority and subject.purpose is Purpose.MEMBER:", "if False:")

SERVERS: list[Mutation] = [
    without(
        f"{_LINKS}test_a_member_cannot_join_as_a_server",
        _FILES,
        'tls / "link-ca.pem"',
        'tls / "member-ca.pem"',
    ),
    without(
        f"{_LINKS}test_a_certificate_without_the_secret_does_not_do",
        "bus/server/server_config.py",
        'authorization {{ user: {LINK_USER}, password: "{self.secret}", timeout: {TLS_SECONDS}{its} }}',
        "",
    ),
    without(
        f"{_LINKS}test_what_was_stolen_from_a_server_is_of_no_use_once_links_are_replaced",
        "pdp/access/domain.py",
        "number = self.links if purpose is Purpose.LINK else 1",
        "number = 1",
    ),
    without(
        f"{_LINKS}test_what_is_given_away_holds_no_secret_of_the_servers",
        _FILES,
        'write_private(self.path / "links.conf", security.links.configuration().encode(), replace=True)',
        'write_whole(self.path / "links.conf", security.links.configuration())',
    ),
    without(
        f"{_LINKS}test_it_has_no_monitoring_port",
        "bus/server/server_config.py",
        '"system_account: SYS\\n"',
        '"system_account: SYS\\nhttp_port: -1\\n"',
    ),
    without(
        f"{_BELOW}test_members_take_no_server_that_one_has_certified",
        "pdp/access/domain_store.py",
        'return self._read("tls/server-ca.pem")',
        'return self._read("tls/member-ca.pem")',
        _ANY_PURPOSE,
        _ANY_HOST,
    ),
    Mutation(
        f"{_BELOW}test_not_even_one_that_takes_the_authority_of_members_for_that_of_servers",
        (_ANY_PURPOSE, _ANY_HOST),
    ),
    Mutation(f"{_BELOW}test_no_client_is_taken_that_it_certified_as_a_host", (_ANY_HOST,)),
    without(
        f"{_BELOW}test_no_client_is_taken_that_a_domain_below_it_certified",
        _CERTIFICATES,
        "x509.BasicConstraints(subject.authority, subject.below)",
        "x509.BasicConstraints(subject.authority, None)",
    ),
]

_LIMITS = "tests/pdp/access/test_service_limits.py::"

LIMITS = [
    without(
        f"{_LIMITS}TestLimits::test_a_key_has_only_so_many_connections",
        "pdp/access/service.py",
        "if self.census.count(key) >= rules.connections:",
        "if False:",
    ),
    without(
        f"{_LIMITS}TestLimits::test_a_connection_has_only_so_many_subscriptions",
        "bus/server/server_config.py",
        'f"max_subscriptions: {limits.subscriptions}\\n"',
        '""',
    ),
    without(
        f"{_LIMITS}TestLimits::test_a_message_has_only_so_many_bytes",
        "bus/server/nats_server.py",
        "max_payload: 1MB",
        "max_payload: 8MB",
    ),
    without(
        f"{_LIMITS}TestLimits::test_a_flood_is_ended_and_stays_out_while_others_are_answered",
        "pdp/access/service.py",
        "for each in self.census.look(page, now):",
        "for each in ():",
    ),
    without(
        f"{_LIMITS}TestLimits::test_a_flood_is_ended_and_stays_out_while_others_are_answered",
        "pdp/access/service.py",
        "            self.census.ban(key, now)\n",
        "",
    ),
]
