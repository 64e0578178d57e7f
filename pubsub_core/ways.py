"""Source routing: how a broker reaches the others, on a line of their own or carried by brokers between them.

Whoever sends something chooses the whole way, by what it knows of who hears whom, and for events through brokers only
that it trusts with their type: in effect each type has an overlay network of its own (section 6.3 of Belokosztolszki et
al.). Those on the way keep nothing and change nothing: what is carried is authentic between its two ends, and what gets
lost is sent again by the one to the other, on another way if need be.
"""

from __future__ import annotations

from collections.abc import Mapping

from bus.envelope import pack
from bus.subjects import link_to
from pubsub_core.messages import Carried
from pubsub_core.routes import Route, routes
from pubsub_core.session import Counts, Peer, Setting


class Ways:
    """The ways from a broker to all others, as they are now."""

    def __init__(self, setting: Setting, counts: Counts, peers: Mapping[str, Peer]) -> None:
        self._setting = setting
        self._counts = counts
        self._peers = peers
        self._routes: dict[str, dict[str, Route]] = {}

    def refresh(self) -> None:
        """Somebody hears others than before, or is trusted with something else."""
        own = self._setting.name
        for peer in self._peers.values():
            peer.direct = peer.near and own in peer.hears
        self._routes.clear()

    def reaches(self, peer: Peer, type_: str) -> bool:
        """Whether events of this type can be sent to a broker."""
        return peer.direct or self._route(peer, type_) is not None

    def send(self, peer: Peer, what: str, data: bytes, type_: str = "") -> None:
        """Send a broker something, for events by their type; what there is no way for is dropped."""
        route = self._route(peer, type_)
        if route is None:
            self._counts.unroutable += 1
        elif len(route) == 1 and peer.near:
            self._setting.send(link_to(self._setting.domain, peer.name, what), data)
        else:
            self.carry(Carried(route, what, data))

    def carry(self, carried: Carried) -> None:
        """Hand something to the next broker on its way, if there is a line to that one."""
        peer = self._peers.get(carried.route[0])
        if peer is None or not peer.near:
            self._counts.unroutable += 1
            return
        self._setting.send(link_to(self._setting.domain, peer.name, "carried"), pack(carried))

    def _route(self, peer: Peer, type_: str) -> Route | None:
        if peer.direct:
            return (peer.name,)
        if type_ not in self._routes:
            self._routes[type_] = self._find(type_)
        # Before another broker has heard of this one, it can only be tried.
        return self._routes[type_].get(peer.name) or ((peer.name,) if peer.near else None)

    def _find(self, type_: str) -> dict[str, Route]:
        own, peers = self._setting.name, self._peers
        hears = {name: peer.hears for name, peer in peers.items()}
        hears[own] = frozenset(name for name, peer in peers.items() if peer.near)
        return routes(own, hears, lambda name: not type_ or type_ in peers[name].carries)
