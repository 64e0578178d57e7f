"""After anything that may happen, the active roles are exactly those whose tagged conditions still hold.

A model keeps the world in plain sets and, after each step, strikes out roles until nothing more falls.
"""

from __future__ import annotations

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from authz import Entity, Identity, Request
from pdp.oasis import Domains, Instance, parse
from pdp.oasis.constraint import Case, compile_constraint
from pdp.oasis.syntax import Appointed, Condition, Constraint, Fact
from pdp.oasis.terms import Atom, ground
from pdp.sessions import (
    Alive,
    Appointment,
    Asserted,
    Changed,
    Membership,
    Retracted,
    Revoked,
    Sessions,
    issuer_channel,
)
from pdp.sessions.session import Kept

KEY = Identity.from_seed(b"k" * 32)
ISSUER = issuer_channel(str(KEY.public))
BOOK = Domains(
    [
        parse(f"""
            trust {KEY.public} for employed
            [principal(u)] |- user(u)
            user(u)*, appointment employed(u)* |- doctor(u)
            user(u)*, [staff(u)]* |- doctor(u)
            user(u), [staff(u)] |- visitor(u)
            doctor(d)*, [treats(d, p)]* |- treating(d, p)
            doctor(d)*, [context.hour >= 8 and context.hour < 18]* |- onDuty(d)
            treating(d, p)*, onDuty(d)* |- prescriber(d, p)
            prescriber(d, p)*, treating(d, q)*, [staff(d)], [p != q] |- busy(d, p, q)
            treating(d, p)*, [context.time < 9]* |- probation(d, p)
            visitor(u)*, [context.ward == u]* |- patient(u)
        """)
    ]
).rulebook()
ROLES = list(BOOK.activations)
PATIENCE = {"fact/treats": 12.0, "fact/staff": None, "context/hour": 15.0, "context/ward": None, ISSUER: 20.0}

people = st.sampled_from(["ann", "bob"])
facts = st.one_of(
    st.builds(lambda u: Instance("staff", (u,)), people),
    st.builds(lambda d, p: Instance("treats", (d, p)), people, st.sampled_from(["p1", "p2"])),
)
changes = st.one_of(
    st.builds(Changed, st.just("hour"), st.sampled_from([None, 7, 9, 12, 18, "nine"])),
    st.builds(Changed, st.just("ward"), st.sampled_from([None, "ann", "bob"])),
)


class Cascade(RuleBasedStateMachine):
    """Two people, a session each, and a world that changes under them."""

    @initialize(known=st.lists(facts, min_size=3, max_size=6), expires=st.sampled_from([None, 10, 40]))
    def begin(self, known: list[Instance], expires: float | None) -> None:
        self.sessions = Sessions(BOOK, 0)
        self.now = 0.0
        self.heard = dict.fromkeys(PATIENCE, 0.0)
        self.facts: set[Instance] = set()
        self.context: dict[str, object] = {}
        self.revoked: set[str] = set()
        self.held: dict[tuple[str, Instance], Membership] = {}
        self.presented: set[str] = set()
        self.expires: dict[str, float | None] = {}
        for channel, patience in PATIENCE.items():
            self.sessions.watch(channel, patience)
        for fact in known:
            self.learn(fact)
        self.change(Changed("hour", 9))
        for name in ("ann", "bob"):
            self.sessions.open(name, name)
            self.present(name, expires)
            self.activate(name, set())

    @rule(who=people, but=st.sets(st.sampled_from(ROLES), max_size=4))
    def activate(self, who: str, but: set[str]) -> None:
        """Activate all there is for someone, but for these."""
        for role in ROLES:
            for each in self.available(who, role) if role not in but else ():
                membership = self.sessions.activate(who, Atom(each.name, each.params))
                assert isinstance(membership, Membership)
                assert all(self.holds(who, each, membership) for each in membership.rule.conditions)
                self.held[who, membership.role] = membership

    def available(self, who: str, role: str) -> list[Instance]:
        """The roles of this name for which there is a proof."""
        searches = self.sessions._searches(self.sessions._view(who), role)
        return list(dict.fromkeys(proof.role for search in searches for proof in search.proofs()))

    @rule(who=people, expires=st.sampled_from([None, 10, 40]))
    def present(self, who: str, expires: float | None) -> None:
        if who not in self.presented:
            self.presented.add(who)
            draft = Appointment("", who, "employed", (who,), who, 0, expires, "hr", "")
            self.sessions.present(who, draft.signed(KEY))
            self.expires[who] = expires

    @rule(fact=facts)
    def learn(self, fact: Instance) -> None:
        assert self.sessions.hear(Asserted(fact)) == ()
        if self.touch(f"fact/{fact.name}"):
            self.facts.add(fact)

    @rule(fact=facts)
    def unlearn(self, fact: Instance) -> None:
        self.sessions.hear(Retracted(fact))
        self.touch(f"fact/{fact.name}")
        self.facts.discard(fact)

    @rule(change=changes)
    def change(self, change: Changed) -> None:
        self.sessions.hear(change)
        if self.touch(change.channel):
            self.context[change.name] = change.value

    @rule(who=people)
    def revoke(self, who: str) -> None:
        self.sessions.hear(Revoked(str(KEY.public), who))
        self.touch(ISSUER)
        self.revoked.add(who)

    @rule(who=people)
    def write_down_and_read_back(self, who: str) -> None:
        written = msgspec.msgpack.encode(self.sessions.keep(who))
        assert self.sessions.restore(who, Entity(who), msgspec.msgpack.decode(written, type=Kept)) == ()

    @rule(channel=st.sampled_from(sorted(PATIENCE)))
    def stay_alive(self, channel: str) -> None:
        assert self.sessions.hear(Alive(channel)) == ()
        self.touch(channel)

    @rule(channel=st.sampled_from(sorted(PATIENCE)), snapshot=st.lists(facts, max_size=3))
    def watch_anew(self, channel: str, snapshot: list[Instance]) -> None:
        self.sessions.watch(channel, PATIENCE[channel])
        self.sessions.load(channel, [Asserted(fact) for fact in snapshot])
        self.heard[channel] = self.now
        self.facts = {fact for fact in self.facts if channel != f"fact/{fact.name}"}
        self.facts |= {fact for fact in snapshot if channel == f"fact/{fact.name}"}
        self.context = {name: value for name, value in self.context.items() if channel != f"context/{name}"}

    @rule(seconds=st.sampled_from([0.5, 3, 8, 13]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.sessions.advance(self.now)
        for channel in [each for each in self.heard if self.silent(each)]:
            del self.heard[channel]
            self.facts = {fact for fact in self.facts if channel != f"fact/{fact.name}"}
            self.context.pop(channel.partition("/")[2], None)

    @rule(who=people, role=st.sampled_from(ROLES))
    def give_up(self, who: str, role: str) -> None:
        for each in [each for each in self.sessions.roles(who) if each.name == role]:
            self.sessions.deactivate(who, each)
            self.held.pop((who, each), None)

    @rule(who=people)
    def log_out_and_in(self, who: str) -> None:
        self.sessions.close(who)
        self.sessions.open(who, who)
        self.presented.discard(who)
        self.held = {key: value for key, value in self.held.items() if key[0] != who}

    @invariant()
    def what_is_active_is_what_still_holds(self) -> None:
        if not hasattr(self, "sessions"):
            return
        while lost := [key for key, membership in self.held.items() if not self.member(key[0], membership)]:
            for key in lost:
                del self.held[key]
        for who in ("ann", "bob"):
            assert set(self.sessions.roles(who)) == {role for name, role in self.held if name == who}

    def member(self, who: str, membership: Membership) -> bool:
        tagged = [each for each in membership.rule.conditions if each.member]
        return all(self.holds(who, each, membership) for each in tagged)

    def holds(self, who: str, condition: Condition, membership: Membership) -> bool:
        if isinstance(condition, Constraint):
            request = Request.of(Entity(who), who, "activate", {**self.context, "time": self.now})
            return compile_constraint(condition.predicate)(Case(request, membership.bindings))
        instance = ground(condition.atom, membership.bindings)
        if isinstance(condition, Appointed):
            expires = self.expires[who]
            return (
                who not in self.revoked and ISSUER in self.heard and (expires is None or self.now < expires)
            )
        if isinstance(condition, Fact):
            return instance in self.facts or instance == Instance("principal", (who,))
        return (who, instance) in self.held

    def touch(self, channel: str) -> bool:
        """Note that a channel was heard; whether it is believed."""
        if channel in self.heard:
            self.heard[channel] = self.now
        return channel in self.heard

    def silent(self, channel: str) -> bool:
        patience = PATIENCE[channel]
        return patience is not None and self.now - self.heard[channel] > patience


Cascade.TestCase.settings = settings(max_examples=25, stateful_step_count=40)
TestCascade = Cascade.TestCase
