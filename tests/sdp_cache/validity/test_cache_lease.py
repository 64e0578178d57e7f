from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from authz.change import Heartbeat
from sdp_cache.validity.cache_lease import Lease, LeaseRules, Standing, Step

RULES = LeaseRules(seconds=10.0)


def standing_at(lease, *instants):
    return [lease.standing(now).value for now in instants]


def test_nothing_is_served_before_the_first_heartbeat():
    assert Lease(RULES).standing(0.0) is Standing.NONE


def test_a_heartbeat_carries_the_lease_for_its_seconds_and_no_longer():
    lease = Lease(RULES, sequence=3, epoch=7)
    lease.hear(Heartbeat(7, 3, at=100.0), now=100.5)
    assert standing_at(lease, 109.9, 110.0) == ["fresh", "none"]


def test_the_lease_runs_from_when_the_heartbeat_was_true_not_from_when_it_arrived():
    lease = Lease(RULES)
    lease.hear(Heartbeat(0, 0, at=100.0), now=109.0)
    assert standing_at(lease, 109.5, 110.0) == ["fresh", "none"]


def test_a_sender_whose_clock_is_ahead_does_not_stretch_the_lease():
    lease = Lease(RULES)
    lease.hear(Heartbeat(0, 0, at=5000.0), now=100.0)
    assert standing_at(lease, 109.9, 110.0) == ["fresh", "none"]


def test_an_older_heartbeat_that_comes_late_does_not_shorten_the_lease():
    lease = Lease(RULES)
    lease.hear(Heartbeat(0, 0, at=100.0), now=100.0)
    lease.hear(Heartbeat(0, 0, at=95.0), now=101.0)
    assert lease.standing(109.0) is Standing.FRESH


def test_a_heartbeat_about_an_earlier_change_proves_nothing():
    lease = Lease(RULES, sequence=3, epoch=7)
    lease.hear(Heartbeat(6, 2, at=100.0), now=100.0)
    assert lease.standing(100.0) is Standing.NONE


def test_a_heartbeat_about_a_change_not_received_stops_serving_until_it_is():
    lease = Lease(RULES, sequence=3, epoch=7)
    lease.hear(Heartbeat(7, 3, at=100.0), now=100.0)
    lease.hear(Heartbeat(9, 5, at=101.0), now=101.0)
    assert lease.standing(101.0) is Standing.NONE
    assert list(lease.missing) == [4, 5]
    assert lease.receive(4, 8, now=101.1) is Step.APPLY
    assert lease.standing(101.1) is Standing.NONE
    assert lease.receive(5, 9, now=101.2) is Step.APPLY
    assert list(lease.missing) == []
    assert standing_at(lease, 110.9, 111.0) == ["fresh", "none"]


def test_a_change_that_comes_out_of_order_shows_the_gap_before_it():
    lease = Lease(RULES, sequence=3, epoch=7)
    lease.hear(Heartbeat(7, 3, at=100.0), now=100.0)
    assert lease.receive(6, 10, now=100.1) is Step.GAP
    assert list(lease.missing) == [4, 5, 6]
    assert lease.standing(100.1) is Standing.NONE
    assert lease.receive(3, 7, now=100.2) is Step.DUPLICATE
    assert (lease.sequence, lease.epoch) == (3, 7)


def test_a_heartbeat_about_what_is_missing_counts_once_it_was_fetched():
    lease = Lease(RULES, sequence=3, epoch=7)
    lease.hear(Heartbeat(9, 5, at=101.0), now=101.0)
    assert lease.receive(5, 9, now=102.0) is Step.GAP
    lease.receive(4, 8, now=103.0)
    lease.receive(5, 9, now=103.0)
    assert standing_at(lease, 110.9, 111.0) == ["fresh", "none"]


def test_having_caught_up_with_a_gap_the_lease_is_what_heartbeats_made_it():
    lease = Lease(RULES, sequence=3, epoch=7)
    lease.hear(Heartbeat(7, 3, at=100.0), now=100.0)
    lease.receive(5, 9, now=100.1)
    lease.receive(4, 8, now=100.2)
    lease.receive(5, 9, now=100.2)
    assert standing_at(lease, 109.9, 110.0) == ["fresh", "none"]


def test_a_feed_that_contradicts_what_was_applied_needs_a_restart():
    lease = Lease(RULES, sequence=3, epoch=7)
    lease.hear(Heartbeat(7, 3, at=100.0), now=100.0)
    lease.hear(Heartbeat(8, 3, at=101.0), now=101.0)
    assert lease.diverged
    assert lease.standing(101.0) is Standing.NONE
    lease.restart(3, 8)
    assert not lease.diverged
    assert lease.standing(101.0) is Standing.NONE
    lease.hear(Heartbeat(8, 3, at=102.0), now=102.0)
    assert lease.standing(102.0) is Standing.FRESH


def test_whoever_asks_for_a_newer_epoch_is_not_served():
    lease = Lease(LeaseRules(10.0, stale_for=10.0), sequence=3, epoch=7)
    lease.hear(Heartbeat(7, 3, at=100.0), now=100.0)
    assert lease.standing(100.0, at_least=7) is Standing.FRESH
    assert lease.standing(100.0, at_least=8) is Standing.NONE
    assert lease.standing(115.0, at_least=8) is Standing.NONE


def test_stale_answers_are_served_up_to_the_limit_if_the_service_chose_so():
    lease = Lease(LeaseRules(10.0, stale_for=30.0), sequence=3, epoch=7)
    lease.hear(Heartbeat(7, 3, at=100.0), now=100.0)
    assert standing_at(lease, 109.9, 110.0, 139.9, 140.0) == ["fresh", "stale", "stale", "none"]


def test_while_something_is_missing_answers_are_stale_at_best():
    lease = Lease(LeaseRules(10.0, stale_for=30.0), sequence=3, epoch=7)
    lease.hear(Heartbeat(7, 3, at=100.0), now=100.0)
    lease.hear(Heartbeat(8, 4, at=101.0), now=101.0)
    assert lease.standing(101.0) is Standing.STALE


@dataclass
class Feed:
    """A store and its feed over a network that loses, delays and reorders."""

    now: float = 0.0
    stored: list[float] = field(default_factory=list)
    """When each change was stored; change n leads to epoch 10 n."""
    on_the_way: list[tuple] = field(default_factory=list)

    def head(self):
        return Heartbeat(10 * len(self.stored), len(self.stored), self.now)


moves = st.one_of(
    st.tuples(st.just("wait"), st.floats(0, 8)),
    st.tuples(st.just("push")),
    st.tuples(st.just("push, lost")),
    st.tuples(st.just("beat")),
    st.tuples(st.just("deliver"), st.integers(0, 5)),
    st.tuples(st.just("fetch")),
)


@given(st.lists(moves, max_size=60))
def test_while_fresh_every_change_older_than_the_lease_has_been_applied(trace):
    feed, lease = Feed(), Lease(RULES)
    for move, *argument in trace:
        play(feed, lease, move, *argument)
        if lease.standing(feed.now) is Standing.FRESH:
            due = [at for at in feed.stored if at <= feed.now - RULES.seconds]
            assert lease.sequence >= len(due)
            assert lease.epoch == 10 * lease.sequence


def play(feed, lease, move, argument=None):
    if move == "wait":
        feed.now += argument
    elif move.startswith("push"):
        feed.stored.append(feed.now)
        if move == "push":
            feed.on_the_way.append(("change", len(feed.stored)))
    elif move == "beat":
        feed.on_the_way.append(("beat", feed.head()))
    elif move == "fetch":
        for number in lease.missing:
            assert lease.receive(number, 10 * number, feed.now) is Step.APPLY
    elif feed.on_the_way:
        kind, what = feed.on_the_way.pop(argument % len(feed.on_the_way))
        if kind == "beat":
            lease.hear(what, feed.now)
        else:
            lease.receive(what, 10 * what, feed.now)


@given(st.lists(moves, max_size=30))
def test_once_messages_flow_again_the_lease_is_fresh_after_one_heartbeat_and_one_fetch(trace):
    feed, lease = Feed(), Lease(RULES)
    for move, *argument in trace:
        play(feed, lease, move, *argument)
    lease.hear(feed.head(), feed.now)
    play(feed, lease, "fetch")
    assert lease.standing(feed.now) is Standing.FRESH
