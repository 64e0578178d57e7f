"""The broker: what becomes of events between a publisher and those who may see them. No I/O but `send`.

Invariants: an event is delivered only as the restriction in force at the moment it is sent to the client allows; while
the broker is held, because newer policies are known to exist, nothing is delivered or passed on, and nothing is lost;
while only some types are held, because newer policies may touch nothing else, that is so of these.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from functools import partial

import msgspec

from authz import Identity
from bus.wire import subjects
from pubsub_core.broker.applied_interest import AppliedInterest
from pubsub_core.broker.cursor_delivery import Cursors
from pubsub_core.broker.delivery_states import Occurrence
from pubsub_core.broker.holds import Holds
from pubsub_core.broker.pause_queue import PauseQueue
from pubsub_core.broker.ports import Reading, RuleReplays
from pubsub_core.carriage import Peer, Presence, Publish, Read, Receiving, Routing, Sending
from pubsub_core.delivery import (
    Acknowledging,
    Admitted,
    Counts,
    Dispatcher,
    GapNotices,
    Intake,
    Item,
    Session,
    Setting,
    Subscription,
    SubscriptionTable,
    Triggers,
)
from pubsub_core.events import CLOCK_MARGIN, Event, GapReason, Missed
from pubsub_core.messages import Bundle, Closed, Drained, Interest, Taken
from pubsub_core.rules import Observer
from pubsub_core.trust import Web

OUT_OF_REACH = "the owner of the type is out of reach, and nothing of it is delivered"
DISCARDED = "{} messages between brokers were discarded before they were read here"

_log = logging.getLogger("authfabric.events")


class Broker:
    """Sessions of clients, other brokers, and the events between them."""

    def __init__(
        self,
        setting: Setting,
        web: Web,
        publish: Publish | None = None,
        place: str = "",
        owners: Iterable[Identity] = (),
        network: bytes = b"",
    ) -> None:
        """`publish` carries parcels to other brokers, if anything does; the rest is for `Presence`."""
        self.setting = setting
        self.routing = Routing(setting.catalogue, setting.vault, setting.now)
        self.subscriptions = SubscriptionTable(self.routing.values, int(setting.now() * 1000))
        self.sessions: dict[str, Session] = {}
        self.counts = Counts()
        self.presence = Presence(
            setting,
            self.counts,
            self.subscriptions,
            web,
            place,
            lambda: self.types_in_use,
            self.tell_interest,
            owners,
            network,
        )
        self.sending = Sending(setting, self.counts, self.presence.carries, publish, self.routing)
        self.receiving = Receiving(setting, self.counts, self.presence.trusts, self._tell_missed)
        self.cursors = Cursors(self.sessions, self.subscriptions, self.receiving, self._stays, self.flush)
        self.acknowledging = Acknowledging(setting, self.sessions, self.publish)
        self._intake = Intake(setting, self.counts)
        self.gaps = GapNotices(self.sessions, self.counts)
        self._dispatcher = Dispatcher(setting, self.counts, self.flush, self.close)
        self.observer = Observer(setting.catalogue, setting.rules.context)
        self.triggers = Triggers(setting.catalogue, setting.rules.context)
        self.subscriptions.on_connect.append(self._connected)
        self.rule_replays: RuleReplays | None = None
        """Sends past events that are due by a rule; None if nothing does."""
        self.reading: Reading | None = None
        """Reads the stream for this broker; None if nothing does."""
        self.interest = AppliedInterest(self.subscriptions, self.presence.announce)
        self.informed = True
        """Whether it is known what other brokers have said: only then it is known whose parcels count."""
        self._holds = Holds()
        self._waiting = PauseQueue()

    @property
    def held(self) -> bool:
        return self._holds.everything

    def holds(self, types: Iterable[str]) -> bool:
        """Whether nothing is delivered of one of these types."""
        return self._holds.holds(types)

    @property
    def peers(self) -> Mapping[str, Peer]:
        """The other brokers that are there, by name."""
        return self.presence.peers

    @property
    def types_in_use(self) -> set[str]:
        """The types, by UUID, that clients here publish or want."""
        adverts = (granted for session in self.sessions.values() for granted in session.adverts.values())
        return {*self.subscriptions.wants(), *(id_ for granted in adverts for id_ in granted)}

    @property
    def takes(self) -> bool:
        """Whether parcels of other brokers can be taken now: otherwise they stay in the stream."""
        waits = self.acknowledging.behind or self._holds.full
        return self.informed and not waits and self._holds.permits(Occurrence.PARCEL)

    def hold(self, types: Collection[str] | None = None) -> None:
        """Deliver and pass on nothing, or nothing of these types, until `release` was called as often as this."""
        self._holds.hold(types)

    def release(self, types: Collection[str] | None = None) -> None:
        self._holds.release(types)
        if self.held:
            return
        self._deliver(self._holds.unpark())
        for work in self._waiting.take():
            try:
                work()
            except Exception:  # what one has sent must not be in the way of what others have
                _log.exception("what came while nothing was delivered could not be handled")
        self.try_again()
        self.cursors.wake()
        for session in tuple(self.sessions.values()):
            if types is None or session.send_window.waiting or session.playbacks:
                self.flush(session)
        self._read_on()

    def _read_on(self) -> None:
        """Take what has stayed in the stream, if it can be taken now."""
        if self.reading is not None and self.reading.paused and self.takes:
            self.reading.go_on()

    def publish(self, bundle: Bundle, answer: Callable[[Taken], None]) -> None:
        """Take what a client publishes, and say what became of it; while held, later."""
        session = self.sessions.get(bundle.session)
        if session is None:
            answer(Taken(bundle.number, problem="there is no such session"))
        elif self._holds.permits(Occurrence.PUBLISHED, session.publishes):
            self._publish(session, bundle, answer)
        else:  # what there is no room for is sent again
            size = sum(len(memoryview(raw)) for raw in bundle.events)
            self._waiting.offer(session.token, size, lambda: self.publish(bundle, answer))

    def _publish(self, session: Session, bundle: Bundle, answer: Callable[[Taken], None]) -> None:
        recorder = self.setting.recorder
        if self.acknowledging.waits(session, bundle, answer):
            return
        if bundle.number in session.recording or (recorder is not None and recorder.full):
            return  # it is sent again
        admitted = self._intake.take(session, bundle)
        session.recording.add(bundle.number)
        done = partial(self._recorded, session, admitted, answer)
        if recorder is None or not admitted.count:
            done("")
        else:
            recorder.record(admitted.routed, done, admitted.replaced)

    def _recorded(
        self, session: Session, admitted: Admitted, answer: Callable[[Taken], None], problem: str
    ) -> None:
        """Pass on what is kept now; what is not kept is not passed on."""
        if problem:
            self._refuse(session, admitted, answer, problem)
        elif not self._holds.permits(Occurrence.RECORDED):
            self._waiting.keep(partial(self._recorded, session, admitted, answer, ""))
        else:
            self.sending.send(session.token, admitted, partial(self._carried, session, admitted, answer))

    def _refuse(
        self, session: Session, admitted: Admitted, answer: Callable[[Taken], None], problem: str
    ) -> None:
        """Say that a bundle is not published after all."""
        self.counts.refused["history"] += admitted.count
        self.counts.published -= admitted.count
        taken = Taken(admitted.taken.number, problem=problem, unkept=True)
        session.object_to(taken)
        session.recording.discard(taken.number)
        answer(taken)

    def _carried(
        self,
        session: Session,
        admitted: Admitted,
        answer: Callable[[Taken], None],
        problem: str,
        known: bool,
    ) -> None:
        """Deliver here what the stream has, unless it had it before; and say so, when what it did is kept."""
        if problem:
            self._refuse(session, admitted, answer, problem)
            return
        if not self._holds.permits(Occurrence.CARRIED):
            self._waiting.keep(partial(self._carried, session, admitted, answer, problem, known))
            return
        marked, behind = (False, set[Hashable]()) if known else self._pass_on(admitted)

        def finish(_: str) -> None:
            session.recording.discard(admitted.taken.number)
            self.acknowledging.answer(session, admitted.taken, answer, behind)

        if marked and self.setting.recorder is not None:
            self.setting.recorder.record((), finish)
        else:
            finish("")

    def _pass_on(self, admitted: Admitted) -> tuple[bool, set[Hashable]]:
        """Deliver events here: whether they did something that is to be kept, and who of their readers is behind."""
        marked = False
        if self.observer.causes or self.triggers:
            now = self.setting.now()
            for event, _ in admitted.published:
                marked |= self._note(event, now, local=True)
        elif admitted.alike and not self.subscriptions.wanted_here(admitted.alike):
            return False, set()
        return marked, self._deliver([(raw, event) for _, raw, event in admitted.events])

    def receive(self, number: int, subject: str, stored: float, data: bytes, own: bool = False) -> None:
        """Take a parcel by its number in the stream; never while held. Its own are for cursors only."""
        if not own:
            self._arrive(self.receiving.take(number, subject, stored, data))
        elif self.cursors.want(subjects.parcel_place(subject).type):
            self.cursors.deliver(list(self.receiving.take(number, subject, stored, data)))

    def miss_some(self, count: int) -> None:
        """Count messages that the stream discarded unread, and tell the subscribers they may concern."""
        self.counts.lost += count
        now = self.setting.now()
        _log.warning(DISCARDED.format(count))
        missed = Missed(GapReason.CARRIAGE, DISCARDED.format(count), 0.0, now + CLOCK_MARGIN)
        self._tell_missed(self.subscriptions.wants(), missed)

    def _tell_missed(self, types: Collection[str], missed: Missed) -> None:
        if not self._holds.permits(Occurrence.MISSED):
            self._waiting.keep(partial(self._tell_missed, types, missed))
            return
        self.gaps.tell(types, missed)
        for session in tuple(self.sessions.values()):
            self.flush(session)

    def _arrive(self, events: Iterable[Read]) -> None:
        arrived = list(events)
        if self.observer.causes or self.triggers:
            now = self.setting.now()
            for _, event, _ in arrived:
                self._note(event, now, local=False)
        self.cursors.deliver(arrived)
        self._deliver([(raw, event) for raw, event, _ in arrived])

    def try_again(self) -> None:
        """Keys may have come: deliver and pass on what was waiting for them. While held, later."""
        if self._holds.permits(Occurrence.KEYS):
            self._arrive(self.receiving.late())
            self.sending.try_again()

    def _note(self, event: Event, now: float, local: bool) -> bool:
        """See what an event does to fluents, and which replays it starts; whether anything is to be kept of that."""
        marked = self.observer.hear(event, now, local)
        for due in self.triggers.hear(event, now):
            marked = True
            if self.rule_replays is not None:
                self.rule_replays.begin(due)
        return marked

    def _stays(self, types: Iterable[str]) -> bool:
        """Whether nothing is delivered of one of these types for the moment."""
        return (
            not self.informed or self._holds.holds(types) or not all(map(self.presence.within_reach, types))
        )

    def hear_past(self, events: Iterable[Event]) -> None:
        """Past events are sent to a client that asked for them: they start what rules say of such."""
        if self.rule_replays is not None and self.triggers:
            for event in events:
                for due in self.triggers.hear(event, self.setting.now(), past=True):
                    self.rule_replays.begin(due)

    def _connected(self, subscription: Subscription) -> None:
        self.cursors.regrant(subscription)
        if self.triggers.connect(subscription):
            wanted = self.triggers.wanted()
            self.subscriptions.observe("triggers", wanted, set(wanted))

    def _deliver(self, events: Sequence[tuple[msgspec.Raw, Event]]) -> set[Hashable]:
        """Put events into the send windows of those they are for, and send what can be sent; says who is behind."""
        out_of_reach = {
            id_ for id_ in {event.type for _, event in events} if not self.presence.within_reach(id_)
        }
        if out_of_reach:
            heard = [each for each in events if each[1].type not in out_of_reach]
            self.counts.withheld += len(events) - len(heard)
            events = heard
            now = self.setting.now()
            missed = Missed(GapReason.OWNER, OUT_OF_REACH, now - CLOCK_MARGIN, now + CLOCK_MARGIN)
            self._tell_missed(out_of_reach, missed)
        events = self._holds.park(events)
        touched: defaultdict[str, list[Item]] = defaultdict(list)
        found = self.subscriptions.local(event for _, event in events)
        for (raw, event), subscriptions in zip(events, found, strict=True):
            for each in subscriptions:
                if each.cursor is not None:
                    continue
                item, at_once = Item(each, event, raw, each.granted[event.type]), touched[each.session]
                if each.later is None:
                    at_once.append(item)
                else:
                    each.later.put(item)
        for token, items in touched.items():
            self.sessions[token].send_window.put(*items)
            self.flush(self.sessions[token])
        return {token for token in touched if token in self.sessions and self.sessions[token].lag.behind}

    def flush(self, session: Session) -> None:
        """Send a client what it has room for, each event as its restriction now allows."""
        if permitted := self._holds.permits(Occurrence.ROOM):
            self.cursors.fill(session)
            self._send(session, lambda session: self._dispatcher.flush(session, self._holds.types))
            for playback in session.playbacks.values():
                playback.go_on()
        if session.send_window.full:
            self.counts.overflowed += self.gaps.overrun(session)
        if permitted:  # nobody is behind for want of deliveries
            self.acknowledging.look(session)
            self._read_on()

    def tick(self) -> None:
        """Every second: who has stopped reading is not waited for any more."""
        if self._holds.permits(Occurrence.ROOM):
            for session in tuple(self.sessions.values()):
                self.acknowledging.look(session)
            self._read_on()

    def resend(self, session: Session, received: int) -> None:
        """A client that lost its connection has everything up to this number: send what came after once more."""
        if not self._holds.permits(Occurrence.RESUMED, session.receives):
            self._waiting.keep(partial(self.resend, session, received))
        else:
            self._send(session, lambda session: self._dispatcher.resend(session, received))

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
            self.subscriptions.disconnect(subscription)
            self.cursors.leave(subscription)
        for playback in session.playbacks.values():
            playback.go_on()
        self.acknowledging.end(session)
        self._read_on()
        if problem:
            self._dispatcher.post(session, Closed(problem))

    def drain(self) -> None:
        """Have clients go on at another broker, those that know one."""
        for session in self.sessions.values():
            self._dispatcher.post(session, Drained())

    def tell_interest(self, type_: str) -> None:
        """Tell those who publish a type whether anybody wants it."""
        wanted = self.subscriptions.wanted(type_)
        for session in self.sessions.values():
            if any(type_ in granted for granted in session.adverts.values()):
                self._dispatcher.post(session, Interest(type_, wanted))
