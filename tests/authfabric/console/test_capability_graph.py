"""Capabilities drawn: every holder to the right of its issuer, and each link with what it is worth."""

from __future__ import annotations

from msgspec.structs import replace

from authfabric.console.capability_graph import LinkState, graph
from authz import Identity
from authz.spki import Capability, Certificate, Notice, Revocations, Validity, parse_authority

NOW = 1_000_000.0
ROOT, SERVICE, WEB, SHOP, OLD = (Identity.generate() for _ in range(5))
EVERYTHING = parse_authority("resource: *\naction: *")


def grant(issuer: Identity, holder: Identity, days: float | None = 90, start: int = 0) -> Certificate:
    end = None if days is None else int(NOW + days * 86_400)
    capability = Capability(issuer.public, holder.public, True, EVERYTHING, Validity(start, end))
    return capability.sign(issuer)


def states(
    *chains: tuple[str, list[Certificate]], revoked: Revocations | None = None
) -> dict[str, LinkState]:
    drawn = graph(chains, {}, revoked or Revocations(), NOW)
    return {each.name: each.state for each in drawn.links}


def test_each_holder_stands_right_of_its_issuer_and_none_on_another():
    service, web, shop = grant(ROOT, SERVICE, None), grant(SERVICE, WEB), grant(SERVICE, SHOP)
    chains = [("", [service]), ("web", [web]), ("shop", [service, shop])]
    drawn = graph(chains, {str(ROOT.public): "root"}, Revocations(), NOW)
    columns = {each.name: each.column for each in drawn.holders}
    assert (columns["root"], columns["web"], columns["shop"]) == (0, 2, 2)
    assert len({(each.column, each.row) for each in drawn.holders}) == 4
    assert len(drawn.links) == 3
    assert all(0 <= each.left < drawn.width and 0 <= each.top < drawn.height for each in drawn.holders)


def test_a_circle_of_capabilities_is_drawn_all_the_same():
    drawn = graph([("a", [grant(WEB, SHOP)]), ("b", [grant(SHOP, WEB)])], {}, Revocations(), NOW)
    assert len(drawn.holders) == 2
    assert len(drawn.links) == 2


def test_a_link_says_whether_it_holds():
    good, soon, ended = grant(ROOT, WEB), grant(ROOT, SHOP, 3), grant(ROOT, OLD, -1)
    early = grant(ROOT, SERVICE, start=int(NOW + 60))
    found = states(("good", [good]), ("soon", [soon]), ("ended", [ended]), ("early", [early]))
    assert found == {
        "good": LinkState.HOLDS,
        "soon": LinkState.SOON,
        "ended": LinkState.ENDED,
        "early": LinkState.EARLY,
    }


def test_what_was_revoked_or_forged_is_marked():
    web, shop = grant(ROOT, WEB), grant(ROOT, SHOP)
    forged = replace(grant(ROOT, OLD), signature=web.signature)
    revoked = Revocations.of(Notice.of_key(ROOT, WEB.public, 1), Notice.event(ROOT, shop, 1))
    found = states(("web", [web]), ("shop", [shop]), ("forged", [forged]), revoked=revoked)
    assert found == {"web": LinkState.REVOKED, "shop": LinkState.REVOKED, "forged": LinkState.FORGED}


def test_a_revocation_by_somebody_else_takes_nothing_back():
    revoked = Revocations.of(Notice.of_key(OLD, WEB.public, 1))
    assert states(("web", [grant(ROOT, WEB)]), revoked=revoked) == {"web": LinkState.HOLDS}
