"""The broker: what becomes of events between a publisher and those who may see them. No I/O but `send`.

Invariants: an event is delivered only as the restriction in force at the moment it is sent to the client allows; while
the broker is held, because newer policies are known to exist, nothing is delivered or passed on, and nothing is lost.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import msgspec

from authz.agreement import AgreementKey
from pubsub_core.arrivals import Arrivals, Arrived
from pubsub_core.event import Event
from pubsub_core.forwarding import Forwarding
from pubsub_core.held import Held
from pubsub_core.intake import Admitted, Intake
from pubsub_core.line import Kind, Numbered
from pubsub_core.mail import Mail
from pubsub_core.messages import (
    Bundle,
    CachedParcel,
    Closed,
    Interest,
    Parcel,
    Taken,
    unpack_cached_parcel,
    unpack_parcel,
)
from pubsub_core.repeats import Repeats
from pubsub_core.rules.observer import Observer
from pubsub_core.session import Counts, Item, Peer, Session, Setting
from pubsub_core.switchboard import Subscription, Switchboard
from pubsub_core.triggers import Due, Triggers
from pubsub_core.ways import Ways

_log = logging.getLogger("authfabric.events")


class Broker:
    """Sessions of clients, other brokers, and the events between them."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.switchboard = Switchboard(int(setting.now() * 1000))
        self.sessions: dict[str, Session] = {}
        self.peers: dict[str, Peer] = {}
        self.within_reach: Callable[[str], bool] = lambda type_: True
        """Whether the owner of a type, by UUID, is within reach now: nothing else of it is delivered."""
        self.counts = Counts()
        self.agreement = AgreementKey.of(setting.identity)
        self.ways = Ways(setting, self.counts, self.peers)
        self.forwarding = Forwarding(setting, self.counts, self.switchboard, self.peers, self.ways)
        self.ask_again: Callable[[Peer], None] = lambda peer: None
        """Has another broker send again what is missing on the line from there."""
        self._intake = Intake(setting, self.counts)
        self.arrivals = Arrivals(setting, self.counts, self.peers)
        self.repeats = Repeats()
        self._mail = Mail(setting, self.counts)
        self.observer = Observer(setting.catalogue, setting.rules.context)
        self.triggers = Triggers(setting.catalogue, setting.rules.context)
        self.switchboard.on_connect = self._connected
        self.on_due: Callable[[Due], None] = lambda due: None
        """Sends past events that are due by a rule."""
        self._held = 0
        self._waiting = Held()

    @property
    def held(self) -> bool:
        return self._held > 0

    @property
    def types_in_use(self) -> set[str]:
        """The types, by UUID, that clients here publish or want."""
        adverts = (granted for session in self.sessions.values() for granted in session.adverts.values())
        return {*self.switchboard.wants(), *(id_ for granted in adverts for id_ in granted)}

    def hold(self) -> None:
        """Deliver and pass on nothing, until `release` was called as often as this."""
        self._held += 1

    def release(self) -> None:
        self._held -= 1
        if self.held:
            return
        for work in self._waiting.take():
            try:
                work()
            except Exception:  # what one has sent must not be in the way of what others have
                _log.exception("what came while nothing was delivered could not be handled")
        self.try_again()
        for session in tuple(self.sessions.values()):
            self.flush(session)

    def publish(self, bundle: Bundle, answer: Callable[[Taken], None]) -> None:
        """Take what a client publishes, and say what became of it; while held, later."""
        session = self.sessions.get(bundle.session)
        if session is None:
            answer(Taken(bundle.number, problem="there is no such session"))
        elif not self.held:
            self._publish(session, bundle, answer)
        else:  # what there is no room for is sent again
            size = sum(len(memoryview(raw)) for raw in bundle.events)
            self._waiting.offer(session.token, size, lambda: self.publish(bundle, answer))

    def _publish(self, session: Session, bundle: Bundle, answer: Callable[[Taken], None]) -> None:
        recorder = self.setting.recorder
        if recorder is not None and (recorder.full or bundle.number in session.recording):
            return  # it is sent again
        admitted = self._intake.take(session, bundle)
        if recorder is None or not (admitted.events or admitted.originals):
            self._pass_on(admitted)
            answer(admitted.taken)
            return
        session.recording.add(bundle.number)
        done = partial(self._recorded, session, admitted, answer)
        recorder.record(admitted.routed, done, admitted.replaced)

    def _recorded(
        self, session: Session, admitted: Admitted, answer: Callable[[Taken], None], problem: str
    ) -> None:
        """Pass on what is kept now; what is not kept is not passed on."""
        number = admitted.taken.number
        if problem:
            self.counts.refused += len(admitted.published)
            self.counts.published -= len(admitted.published)
            taken = Taken(number, problem=problem, unkept=True)
            session.object_to(taken)
            session.recording.discard(number)
            answer(taken)
        elif self.held:
            self._waiting.keep(partial(self._recorded, session, admitted, answer, ""))
        elif self._pass_on(admitted):
            assert self.setting.recorder is not None
            self.setting.recorder.record((), lambda _: self._taken(session, admitted, answer))
        else:
            self._taken(session, admitted, answer)

    def _taken(self, session: Session, admitted: Admitted, answer: Callable[[Taken], None]) -> None:
        """Say so when events were routed and what they did is kept: otherwise they are sent again."""
        session.recording.discard(admitted.taken.number)
        answer(admitted.taken)

    def _pass_on(self, admitted: Admitted) -> bool:
        """Route events; true if they did something that is to be kept."""
        marked = False
        if self.observer.causes or self.triggers:
            now = self.setting.now()
            for event, _ in admitted.published:
                marked |= self._note(event, now, local=True)
        self._deliver([(raw, event) for _, raw, event in admitted.events])
        self.forwarding.forward(admitted)
        return marked

    def hear(self, message: Numbered) -> None:
        """Take what comes on the line from another broker; ask for what is missing before it."""
        peer = self.peers.get(message.sender)
        if peer is None or not message.authentic(peer.secret):
            self.counts.untrusted += 1
            return
        self.handle(peer.incoming.take(message))
        if peer.incoming.lacks() and peer.asked != peer.incoming.next:
            self.ask_again(peer)

    def handle(self, messages: Iterable[Numbered]) -> None:
        """Take messages whose turn it is."""
        for message in messages:
            if not message.data:
                continue  # it stands for something that may no longer be sent here
            if message.kind is Kind.BOX:
                for kind, data in self.arrivals.unbox(message):
                    self._handle(kind, data)
            else:
                self._handle(message.kind, message.data)

    def _handle(self, kind: int, data: bytes) -> None:
        if kind == Kind.CACHED:
            self.receive_cached(unpack_cached_parcel(data), len(data))
        else:
            self.receive(unpack_parcel(data), len(data))

    def receive_cached(self, parcel: CachedParcel, size: int = 0) -> None:
        """Take what a broker with the same keys passes on in clear, in a message of this size."""
        self._arrive(partial(self.arrivals.accept_cached, parcel), parcel.sender, size)

    def receive(self, parcel: Parcel, size: int = 0) -> None:
        """Take what another broker passes on, in a message of this size; while held, later."""
        self._arrive(partial(self.arrivals.accept, parcel, trusted=False), parcel.sender, size)

    def _arrive(self, accept: Callable[[], Arrived], sender: str = "", size: int = 0) -> None:
        if not self.held:
            arrived = list(accept())
            if sender and arrived:
                came = len(arrived)
                arrived = self.repeats.new(sender, arrived, size, self.setting.now())
                self.counts.replayed += came - len(arrived)
            if self.observer.causes or self.triggers:
                now = self.setting.now()
                for _, event in arrived:
                    self._note(event, now, local=False)
            self._deliver(arrived)
        elif not self._waiting.offer(sender, size, partial(self._arrive, accept, sender, size)):
            self.counts.overflowed += 1

    def try_again(self) -> None:
        """Keys may have come: deliver and pass on what was waiting for them. While held, later."""
        if not self.held:
            self._arrive(self.arrivals.late)
            self.forwarding.try_again()

    def _note(self, event: Event, now: float, local: bool) -> bool:
        """See what an event does to fluents, and which replays it starts; whether anything is to be kept of that."""
        marked = self.observer.hear(event, now, local)
        for due in self.triggers.hear(event, now):
            marked = True
            self.on_due(due)
        return marked

    def _connected(self, subscription: Subscription) -> None:
        if self.triggers.connect(subscription):
            wanted = self.triggers.wanted()
            self.switchboard.observe("triggers", wanted, set(wanted))

    def _deliver(self, events: Sequence[tuple[msgspec.Raw, Event]]) -> None:
        """Put events into the outboxes of those they are for, and send what can be sent."""
        out_of_reach = {id_ for id_ in {event.type for _, event in events} if not self.within_reach(id_)}
        if out_of_reach:
            heard = [each for each in events if each[1].type not in out_of_reach]
            self.counts.withheld += len(events) - len(heard)
            events = heard
        touched: dict[str, Session] = {}
        found = self.switchboard.local(event for _, event in events)
        for (raw, event), subscriptions in zip(events, found, strict=True):
            for subscription in subscriptions:
                session = touched[subscription.session] = self.sessions[subscription.session]
                item = Item(subscription, event, raw, subscription.granted[event.type])
                (subscription.later or session.outbox).put(item)
        for session in touched.values():
            self.flush(session)

    def flush(self, session: Session) -> None:
        """Send a client what it has room for, each event as its restriction now allows."""
        if not self.held:
            self._send(session, self._mail.flush)
            for playback in session.playbacks.values():
                playback.go_on()
        if session.outbox.full:
            self.counts.overflowed += session.outbox.waiting
            self.close(session, "the client does not read what it subscribed to")

    def resend(self, session: Session, received: int) -> None:
        """A client that lost its connection has everything up to this number: send what came after once more."""
        if self.held:
            self._waiting.keep(partial(self.resend, session, received))
        else:
            self._send(session, lambda session: self._mail.resend(session, received))

    def _send(self, session: Session, work: Callable[[Session], None]) -> None:
        """Send a client something; if that cannot be done, it has no session any more, and nobody else is concerned."""
        try:
            work(session)
        except Exception:
            _log.exception("a client is sent nothing more")
            self.close(session, "what it was to be sent cannot be sent")

    def close(self, session: Session, problem: str = "") -> None:
        """End a session; with a problem, tell the client."""
        if self.sessions.pop(session.token, None) is None:
            return
        for subscription in session.subscriptions.values():
            self.switchboard.disconnect(subscription)
        for playback in session.playbacks.values():
            playback.go_on()
        if problem:
            self._mail.post(session, Closed(problem))

    def tell_interest(self, type_: str) -> None:
        """Tell those who publish a type whether anybody wants it."""
        wanted = self.switchboard.wanted(type_)
        for session in self.sessions.values():
            if any(type_ in granted for granted in session.adverts.values()):
                self._mail.post(session, Interest(type_, wanted))
