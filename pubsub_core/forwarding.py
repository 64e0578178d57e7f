"""What a broker passes on: to each other broker the events that it wants, in parcels, numbered on the line to it.

Invariant: another broker is sent the events that one of its announced filters lets through, and, of a type whose events
are sealed, nothing in clear unless it holds the same keys.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import msgspec

from bus.envelope import pack
from pubsub_core.event import Event, encode
from pubsub_core.intake import Admitted
from pubsub_core.line import Numbered
from pubsub_core.messages import CachedParcel, Parcel
from pubsub_core.proof import DIGEST_BYTES, Proof, all_digests, digest
from pubsub_core.session import Counts, Peer, Setting
from pubsub_core.switchboard import Switchboard


class Forwarding:
    """Passes events on to other brokers."""

    def __init__(
        self, setting: Setting, counts: Counts, switchboard: Switchboard, peers: Mapping[str, Peer]
    ) -> None:
        self._setting = setting
        self._counts = counts
        self._switchboard = switchboard
        self._peers = peers
        self.boot = int(setting.now() * 1000)
        """When it started: it counts what it sends from there."""

    def forward(self, admitted: Admitted) -> None:
        """Send each broker what it wants of a bundle."""
        parcels: defaultdict[tuple[str, str], list[tuple[int, msgspec.Raw, Event]]] = defaultdict(list)
        remote, vault = self._switchboard.remote, self._setting.vault
        for item in admitted.events:
            event = item[2]
            for name in remote(event):
                parcels[name, event.type if event.type in vault.sealed else ""].append(item)
        for (name, type_), items in parcels.items():
            peer = self._peers[name]
            if type_ and not vault.equal(type_, peer.groups):
                self._send_sealed(peer, [event for _, _, event in items], admitted.proof)
            else:
                self.send_parcel(peer, type_, self._parcel(items, admitted))

    def _parcel(self, items: list[tuple[int, msgspec.Raw, Event]], admitted: Admitted) -> Parcel:
        parcel = Parcel(self._setting.name, admitted.proof, [raw for _, raw, _ in items])
        if len(items) * DIGEST_BYTES == len(admitted.digests):
            return parcel
        places = [place for place, _, _ in items]
        return msgspec.structs.replace(parcel, digests=admitted.digests, places=places)

    def _send_sealed(self, peer: Peer, events: list[Event], proof: Proof) -> None:
        """Send a broker events of which it may not read everything, vouching for what they have become."""
        setting = self._setting
        columns = setting.vault.seal_many(events)
        if columns is not None:
            own = setting.vouch(proof, digest(columns))
            parcel = Parcel(setting.name, own, [], columns=columns)
        else:  # a key ends among them
            sealed = [msgspec.Raw(encode(setting.vault.seal(event))) for event in events]
            parcel = Parcel(setting.name, setting.vouch(proof, all_digests(sealed)), sealed)
        self.send_parcel(peer, "", parcel)
        self._counts.forwarded += len(events) - len(parcel.events)

    def send_parcel(self, peer: Peer, type_: str, parcel: Parcel) -> None:
        """Send a parcel as it is, or, if it holds a sealed type's events in clear, sealed as a whole."""
        setting, data = self._setting, pack(parcel)
        if type_:
            link = f"{setting.name}>{peer.name}".encode()
            cached = setting.vault.cache(type_, setting.now(), link, data)
            data = pack(CachedParcel(setting.name, cached))
        self.send_on(peer, peer.outgoing.add(setting.name, self.boot, data, bool(type_)))
        self._counts.forwarded += len(parcel.events)

    def send_on(self, peer: Peer, message: Numbered) -> None:
        """Send a message on the line to another broker."""
        subject = peer.cached_subject if message.cached else peer.subject
        self._setting.send(subject, pack(message.tagged(peer.secret)))
