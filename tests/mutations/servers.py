"""How to take away what keeps others from becoming servers of a domain."""

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
