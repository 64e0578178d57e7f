from hypothesis import given, settings
from hypothesis import strategies as st

from authz import Decision, Request
from authz.change import Heartbeat, PolicyChange, Touched
from authz.predicate import Equal, Path
from sdp_cache.point.cache_sizes import Recycling
from sdp_cache.point.secondary_point import SecondaryPoint
from sdp_cache.validity.cache_lease import LeaseRules, Step

LEASE = 10.0
ASKED = Request.of("s", "/o", "read")
ALLOW = Decision(True, epoch=5)


def point(**rules):
    """A point at change 1, epoch 5, that has learned one answer and heard one heartbeat at time 100."""
    started = SecondaryPoint(rules=LeaseRules(LEASE, **rules))
    started.restart(1, 5)
    started.learn(ASKED, ALLOW, started.epoch, "1")
    started.hear(Heartbeat(5, 1, at=100.0), now=100.0)
    return started


def test_under_a_lease_it_answers_and_beyond_it_does_not():
    started = point()
    assert started.infer(ASKED, 109.9).allowed
    assert started.infer(ASKED, 110.0) is None
    assert started.last_known(ASKED, 110.0) is None


def test_whoever_has_seen_a_newer_epoch_is_answered_only_from_it_on():
    started = point()
    assert started.infer(ASKED, 101.0, at_least=5) is not None
    assert started.infer(ASKED, 101.0, at_least=6) is None
    assert started.receive(2, PolicyChange(6, 5), 101.0) is Step.APPLY
    started.hear(Heartbeat(6, 2, at=101.0), now=101.0)
    assert started.infer(ASKED, 101.0, at_least=6).epoch == 6


def test_what_was_last_known_is_served_up_to_the_limit_and_marked_stale():
    started = point(stale_for=20.0)
    assert started.last_known(ASKED, 109.0).inferred.stale is False
    assert started.infer(ASKED, 115.0) is None
    assert started.last_known(ASKED, 115.0).inferred.stale is True
    assert started.last_known(ASKED, 115.0, at_least=6) is None
    assert started.last_known(ASKED, 130.0) is None


def test_an_answer_that_has_expired_is_not_served_stale_either():
    started = point(stale_for=20.0)
    started.learn(ASKED, Decision(True, epoch=5, expires=112.0), 5, "2")
    assert started.last_known(ASKED, 111.0) is not None
    assert started.last_known(ASKED, 112.0) is None


def test_a_missing_change_must_be_fetched_before_it_answers_again():
    started = point()
    touching = PolicyChange(7, 6, (Touched(Equal(Path("subject"), "other")),))
    assert started.receive(3, touching, 101.0) is Step.GAP
    assert started.infer(ASKED, 101.0) is None
    assert list(started.missing) == [2, 3]
    assert started.receive(2, PolicyChange(6, 5), 101.0) is Step.APPLY
    assert started.receive(3, touching, 101.0) is Step.APPLY
    assert started.infer(ASKED, 101.0).epoch == 7


def test_after_a_restart_nothing_is_known():
    started = point()
    started.hear(Heartbeat(9, 1, at=101.0), now=101.0)
    assert started.diverged
    started.restart(1, 9)
    started.hear(Heartbeat(9, 1, at=102.0), now=102.0)
    assert started.epoch == 9
    assert started.infer(ASKED, 102.0) is None


NAMES = ["alice", "bob"]
names = st.sampled_from(NAMES)
sdps = st.integers(0, 1)
moves = st.one_of(
    st.tuples(st.just("wait"), st.floats(0.1, 6)),
    st.tuples(st.just("push"), names),
    st.tuples(st.just("beat"), sdps),
    st.tuples(st.just("cut"), sdps),
    st.tuples(st.just("mend"), sdps),
    st.tuples(st.just("ask"), sdps, names),
    st.tuples(st.just("answer"), sdps),
)


class Fabric:
    """A store, a PDP that is always current, two SDPs behind feeds that may be cut. A push flips one name."""

    def __init__(self):
        self.now = 0.0
        self.history = [dict.fromkeys(NAMES, False)]
        self.stored = [float("-inf")]
        self.changes = []
        self.points = [SecondaryPoint(Recycling(), LeaseRules(LEASE)) for _ in range(2)]
        self.cut = [False, False]
        self.answers = [[], []]
        self.acknowledged = [0, 0]

    def push(self, name):
        new = dict(self.history[-1])
        new[name] = not new[name]
        epoch = len(self.history)
        self.history.append(new)
        self.stored.append(self.now)
        self.changes.append(PolicyChange(epoch, epoch - 1, (Touched(Equal(Path("subject"), name)),)))
        for sdp in (0, 1):
            self.deliver(sdp, epoch)

    def deliver(self, sdp, number):
        if not self.cut[sdp]:
            step = self.points[sdp].receive(number, self.changes[number - 1], self.now)
            if step is Step.APPLY:
                self.acknowledged[sdp] = number

    def beat(self, sdp):
        if not self.cut[sdp]:
            epoch = len(self.history) - 1
            self.points[sdp].hear(Heartbeat(epoch, epoch, self.now), self.now)
            for number in self.points[sdp].missing:
                self.deliver(sdp, number)

    def ask(self, sdp, name):
        """The PDP decides now; its answer arrives when the trace says so."""
        epoch = len(self.history) - 1
        decision = Decision(self.history[-1][name], epoch=epoch)
        self.answers[sdp].append((Request.of(name, "/o", "read"), decision, self.points[sdp].epoch))

    def answer(self, sdp):
        for request, decision, asked_at in self.answers[sdp]:
            self.points[sdp].learn(request, decision, asked_at)
        self.answers[sdp].clear()

    def check(self):
        everyone = min(self.acknowledged)
        due = max(epoch for epoch, at in enumerate(self.stored) if at <= self.now - LEASE)
        for sdp in (0, 1):
            for name in NAMES:
                found = self.points[sdp].infer(Request.of(name, "/o", "read"), self.now)
                if found is not None:
                    assert found.allowed is self.history[found.epoch][name]
                    assert found.epoch >= max(everyone, due, self.acknowledged[sdp])


@settings(max_examples=100)
@given(st.lists(moves, max_size=60))
def test_no_answer_of_an_old_policy_is_given_once_acknowledged_nor_beyond_the_lease(trace):
    fabric = Fabric()
    for move, *arguments in trace:
        if move == "wait":
            fabric.now += arguments[0]
        elif move in ("cut", "mend"):
            fabric.cut[arguments[0]] = move == "cut"
        else:
            getattr(fabric, move)(*arguments)
        fabric.check()
