"""The calls of clients: each caller is verified, and PDPs decide what it may do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

import msgspec

from authz import AuthFabricError, Entity, PublicKey
from authz.errors import InvalidSignature
from authz.predicate.filter import parse_filter
from authz.spki import Right
from bus.wire import pack, subjects
from pubsub_core.access import Ask, Granted, Holder, Rights, type_object
from pubsub_core.broker import Broker, Claim, Claims, replay_ask
from pubsub_core.delivery import Cursor, Playback, Query, Session, Subscription
from pubsub_core.errors import (
    CredentialRefused,
    DurableRefused,
    Refused,
    SessionLost,
    TypeRefused,
    UnknownType,
)
from pubsub_core.events import Nonces
from pubsub_core.history import followed
from pubsub_core.keys import Channel
from pubsub_core.messages import (
    CALL,
    WELCOME,
    AddType,
    Advertise,
    Answer,
    Connect,
    DeleteDurable,
    Describe,
    Disconnect,
    Extent,
    Inspect,
    ListDurables,
    RemoveType,
    Replay,
    SignedCall,
    Subscribe,
    Survey,
    Unadvertise,
    Unsubscribe,
    place_of,
)
from pubsub_core.replay import Replays, admit
from pubsub_core.rules import check_asked, shown_instead
from pubsub_core.server.durable_service import Durables
from pubsub_core.server.refusals import refusal
from pubsub_core.server.survey import describe, survey
from pubsub_core.trust import Web, signer_of
from pubsub_core.types import EventType, SignedType, check_filter

SETTLED_SECONDS = 1.0
"""Maximum seconds a subscription waits until the stream is read for it."""

UNKNOWN_SESSION = (
    "the broker does not know it: it has started anew, or did not hear the client for long; connect again"
)


class Types(Protocol):
    """Where definitions are kept."""

    async def publish(self, signed: SignedType) -> None: ...

    async def remove(self, id_: str, word: bytes) -> None: ...


class Calls:
    """Answers the calls of a broker's clients."""

    def __init__(
        self,
        broker: Broker,
        rights: Rights,
        claims: Claims,
        types: Types | None,
        token: Callable[[], str],
        on_change: Callable[[set[str]], None],
        replays: Replays,
        web: Web,
        durables: Durables,
    ) -> None:
        """`on_change` is told the types of which other events are wanted, or published, from now on."""
        self._broker = broker
        self._setting = broker.setting
        self._catalogue = broker.setting.catalogue
        self._rights = rights
        self._claims = claims
        self._types = types
        self._token = token
        self._on_change = on_change
        self._replays = replays
        self._web = web
        self._durables = durables
        self._nonces = Nonces()
        self._refused = broker.counts.calls_refused

    async def answer(self, payload: bytes, channel: Channel | None = None) -> bytes:
        """Answer a call; `channel` is the one by which it came, if it came sealed."""
        try:
            return pack(await self._answer(payload, channel))
        except AuthFabricError as error:
            reason, answer = refusal(error)
            self._refused[reason] += 1
            return pack(answer)

    async def _answer(self, payload: bytes, channel: Channel | None) -> Answer:
        opened = CALL.read(payload)
        signed, now = opened.value, self._setting.now()
        elsewhere = signed.broker != self._setting.name or signed.channel != _binding(channel)
        if elsewhere or not self._nonces.use(signed.nonce, signed.time, now):
            raise InvalidSignature
        if isinstance(signed.call, Connect):
            return await self._connect(signed.call, opened.signer, signed.nonce, channel)
        session = self._broker.sessions.get(signed.session)
        if session is None or session.key != opened.signer or session.channel is not channel:
            raise SessionLost(UNKNOWN_SESSION)
        session.heard = now
        return await self._do(session, signed)

    async def _do(self, session: Session, signed: SignedCall) -> Answer:
        match signed.call:
            case Subscribe():
                return await self._subscribe(session, signed.call)
            case Replay():
                return await self._replay(session, signed.call)
            case Unsubscribe(number):
                return self._unsubscribe(session, number)
            case Advertise(name):
                return await self._advertise(session, name)
            case Unadvertise(name):
                return self._unadvertise(session, name)
            case Describe(version):
                return self._about(session, self._catalogue.version(version))
            case Inspect(name):
                return await self._inspect(session, name)
            case Survey(name, filter_):
                return await self._survey(session, name, filter_)
            case AddType(data):
                return await self._add_type(session, SignedType.decode(data))
            case RemoveType(name, word):
                return await self._remove_type(session, name, word)
            case ListDurables():
                return Answer(durables=await self._durables.list(session))
            case DeleteDurable(name):
                await self._durables.delete(session, name)
            case Disconnect():
                types = {id_ for each in session.subscriptions.values() for id_ in each.granted}
                self._broker.close(session)
                self._on_change(types)
        return Answer()

    async def _connect(
        self, call: Connect, signer: PublicKey, nonce: bytes, channel: Channel | None
    ) -> Answer:
        credential, key = self._setting.credentials.open(call.credential, self._setting.now())
        if key != signer:
            raise CredentialRefused(f"of `{credential.name}` is for another key than the caller's")
        if not subjects.is_mailbox(call.inbox, self._setting.domain):
            raise Refused(
                "connect", self._setting.name, f"`{call.inbox}` is no place for a client's mail here"
            )
        session = self._broker.sessions.get(call.resume)
        if session is not None and session.key == signer:
            session.inbox, session.heard, session.channel = call.inbox, self._setting.now(), channel
            self._broker.resend(session, call.received)
            return self._welcome(session.token, nonce)
        holder = Holder(credential, call.chains)
        here = Entity(f"/brokers/{self._setting.name}")
        decision = await self._rights.allows(holder, here, "connect", self._claims.epoch)
        if not decision.allowed:
            raise Refused("connect", self._setting.name, decision.detail)
        session = Session(self._token(), key, holder, call.credential, call.inbox, self._setting.now())
        session.channel = channel
        self._broker.sessions[session.token] = session
        return self._welcome(session.token, nonce)

    def _welcome(self, token: str, nonce: bytes) -> Answer:
        """The broker proves its own key too."""
        identity = self._setting.identity
        proof = identity.sign(WELCOME + nonce)
        return Answer(session=token, broker=str(identity.public), proof=proof)

    async def _subscribe(self, session: Session, call: Subscribe) -> Answer:
        try:
            return await self._connect_through(session, call)
        except AuthFabricError:
            self._replays.stop(session, call.number)
            raise

    async def _connect_through(self, session: Session, call: Subscribe) -> Answer:
        definition = self._catalogue.named(call.type)
        self._check_readable("subscribe", definition)
        await asyncio.to_thread(parse_filter, call.filter)
        if call.number in session.subscriptions:
            raise Refused("subscribe", call.type, f"there is a subscription {call.number} already")
        subscription = Subscription(session.token, call.number, definition.id, call.filter, start=call.start)
        playback: Playback | None = None
        if call.start is not None:
            query = Query(call.start)
            playback = Playback(
                session.token, call.number, definition.id, call.filter, query=query, joined=subscription
            )
            await self._permit(session, playback, definition)
        ask = Ask(session.holder, Right.SUBSCRIBE, definition.id, subscription.fixed)
        claim = Claim(session, ask, subscription)
        granted = await self._allowed("subscribe", definition, claim, subscription)
        edition = self._claims.edition
        cursor, position = await self._cursor(session, definition, call)
        try:
            if self._claims.edition != edition:
                granted = await self._allowed("subscribe", definition, claim, subscription)
            self._claims.begin(claim, granted)
        except AuthFabricError:
            self._durables.left(cursor)
            raise
        session.subscriptions[call.number] = subscription
        if cursor is not None:
            self._broker.cursors.join(cursor, subscription)
        self._on_change(set(granted.restrictions))
        if playback is not None:
            self._replays.begin(session, playback)
        else:
            await self._broker.interest.settled(SETTLED_SECONDS)
        self._replays.rules.resume(session, subscription, call.unfinished)
        return msgspec.structs.replace(self._about(session, definition), position=position)

    async def _cursor(
        self, session: Session, definition: EventType, call: Subscribe
    ) -> tuple[Cursor | None, int]:
        """Where a subscription that outlasts its broker goes on; none for others. Also the number it begins after."""
        family = self._catalogue.family(definition.id)
        kept = all(each.carriage.storage == subjects.FILE for each in family)  # positions are in that stream
        if call.durable and not kept:
            raise DurableRefused(call.durable, "needs a type whose events are kept on `file`")
        if call.durable:
            cursor = await self._durables.take_up(session, definition, call.filter, call.durable, call.lost)
            return cursor, 0
        if call.after is None or not kept or not self._durables.running_here:
            return None, 0
        after = await self._durables.rereading.now() if call.after < 0 else call.after
        return Cursor(place_of(after + 1, 0)), after

    async def _allowed(
        self, action: str, definition: EventType, claim: Claim, subscription: Subscription
    ) -> Granted:
        """What policies leave of a claim whose filter can be meant, at a cost that is bounded. Raises Refused.

        The filter is compiled once that is known, and beside the loop, so that nobody else waits for it.
        """
        granted, edition = await self._claims.granted(claim), self._claims.edition
        if granted.restrictions:
            names = self._catalogue.names(definition.version)
            rules = [each.every_rule for each in granted.restrictions.values()]
            shown = shown_instead(definition.id, rules, self._catalogue)
            await asyncio.to_thread(check_asked, subscription.filter, names, shown)
            if self._claims.edition != edition:
                granted = await self._claims.granted(claim)
        if not granted.restrictions:
            raise Refused(action, definition.name, granted.detail)
        return granted

    def _check_readable(self, action: str, definition: EventType) -> None:
        if problem := self._claims.unreadable(definition.id):
            raise Refused(action, definition.name, problem)

    async def _replay(self, session: Session, call: Replay) -> Answer:
        definition = self._catalogue.named(call.type)
        self._check_readable("replay", definition)
        query = Query(call.start, call.end, call.during, call.not_during)
        playback = Playback(session.token, call.number, definition.id, call.filter, query=query)
        await self._permit(session, playback, definition)
        self._replays.begin(session, playback)
        return self._about(session, definition)

    async def _permit(self, session: Session, playback: Playback, definition: EventType) -> None:
        """Ask whether a client may have past events. Raises Refused, InvalidFilter."""
        await asyncio.to_thread(parse_filter, playback.filter)
        admit(self._broker.sessions.values(), session, playback, definition.name)
        claim = Claim(session, replay_ask(session.holder, playback), playback)
        granted = await self._allowed("replay", definition, claim, playback)
        for fluent in filter(None, (playback.query.during, playback.query.not_during)):
            followed(self._setting.rules.context, fluent)
        admit(self._broker.sessions.values(), session, playback, definition.name)  # others came meanwhile
        self._claims.begin(claim, granted)
        session.playbacks[playback.key] = playback

    def _unsubscribe(self, session: Session, number: int) -> Answer:
        self._replays.stop(session, number)
        subscription = session.subscriptions.pop(number, None)
        if subscription is not None:
            types = set(subscription.granted)
            self._broker.subscriptions.disconnect(subscription)
            self._broker.cursors.leave(subscription)
            self._on_change(types)
        return Answer()

    async def _advertise(self, session: Session, name: str) -> Answer:
        definition = self._catalogue.named(name)
        claim = Claim(session, Ask(session.holder, Right.PUBLISH, definition.id), None)
        granted = await self._claims.granted(claim)
        if not granted.restrictions:
            raise Refused("publish", name, granted.detail)
        self._claims.settle(claim, granted)
        session.advertised.add(definition.id)
        wanted = any(map(self._broker.subscriptions.wanted, granted.restrictions))
        return self._about(session, definition, interested=wanted)

    def _unadvertise(self, session: Session, name: str) -> Answer:
        id_ = self._catalogue.named(name).id
        session.advertised.discard(id_)
        session.adverts.pop(id_, None)
        return Answer()

    async def _inspect(self, session: Session, name: str) -> Answer:
        definition = self._catalogue.named(name)
        await self._require(session, definition.name, "inspect")
        claims = [
            *(each.granted for each in session.subscriptions.values() if each.type == definition.id),
            *(granted for id_, granted in session.adverts.items() if id_ == definition.id),
        ]
        lines = [
            describe(self._catalogue, id_, each.restriction)
            for granted in claims
            for id_, each in granted.items()
        ]
        return self._about(session, definition, restrictions=tuple(lines))

    async def _survey(self, session: Session, name: str, filter_: str) -> Answer:
        definition = self._catalogue.named(name)
        await self._require(session, definition.name, "inspect")
        names = self._catalogue.names(definition.version)
        await asyncio.to_thread(check_filter, filter_, names)
        subscription = Subscription(session.token, 0, definition.id, filter_)
        ask = Ask(session.holder, Right.SUBSCRIBE, definition.id, subscription.fixed)
        granted = await self._claims.granted(Claim(session, ask, subscription))
        extent = survey(self._broker, self._claims, subscription, granted)
        return self._about(session, definition, extent=extent)

    async def _add_type(self, session: Session, signed: SignedType) -> Answer:
        await self._require(session, signed.definition.name, "define")
        if self._types is None:
            raise TypeRefused(signed.definition.name, "this broker has no store for definitions")
        await self._types.publish(signed)
        return Answer(vouches=self._vouches(session, signed.definition))

    async def _remove_type(self, session: Session, name: str, word: bytes) -> Answer:
        definition = self._catalogue.named(name)
        await self._require(session, name, "remove")
        if self._types is None or str(session.key) != definition.owner:
            raise Refused("remove", name, "only its owner can take it out")
        about = self._about(session, definition)
        await self._types.remove(definition.id, word)
        return about

    async def _require(self, session: Session, name: str, action: str) -> None:
        catalogue = self._catalogue
        try:
            thing = type_object(catalogue, catalogue.named(name))
        except UnknownType:
            thing = Entity(f"/types/{name}")
        decision = await self._rights.allows(session.holder, thing, action, self._claims.epoch)
        if not decision.allowed:
            raise Refused(action, name, decision.detail)

    def _about(
        self,
        session: Session,
        definition: EventType,
        restrictions: tuple[str, ...] = (),
        interested: bool = False,
        extent: Extent | None = None,
    ) -> Answer:
        """The answer to a call about a type, by which the client sees that this broker may carry it."""
        signed = self._catalogue.signed(definition.version)
        return Answer(
            definitions=tuple(each.encode() for each in signed),
            restrictions=restrictions,
            interested=interested,
            vouches=self._vouches(session, definition),
            extent=extent,
        )

    def _vouches(self, session: Session, definition: EventType) -> tuple[bytes, ...]:
        own, now = str(self._setting.identity.public), self._setting.now()
        starts = dict.fromkeys((definition.owner, str(signer_of(session.credential))))
        return tuple(word for start in starts for word in self._web.chain(start, own, definition.id, now))


def _binding(channel: Channel | None) -> bytes:
    return b"" if channel is None else channel.binding
