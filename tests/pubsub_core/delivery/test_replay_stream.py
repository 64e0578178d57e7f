"""Pages of several brokers become one past in order of time."""

from __future__ import annotations

import asyncio

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from pubsub_core.delivery.replay_stream import FEW, Merge, Playback, Query, Source, Waiting
from pubsub_core.events.event import Event


def event(time: float, number: int = 0) -> tuple[Event, msgspec.Raw]:
    return Event("t", "v", b"p", time, number, {}), msgspec.Raw(b"")


@given(st.lists(st.lists(st.integers(0, 50)), min_size=1, max_size=4), st.integers(1, 5), st.integers(1, 7))
def test_everything_comes_once_and_in_order_of_time_however_pages_arrive(times, page, most):
    pending = [sorted(each) for each in times]
    sources = [Source(f"b{number}", "t") for number in range(len(times))]
    merge, found = Merge(sources), []
    while not merge.ended:
        for source in list(merge.hungry()):
            place = sources.index(source)
            source.page.extend(event(float(each)) for each in pending[place][:page])
            del pending[place][:page]
            source.ended = not pending[place]
        found += [each.time for each, _ in merge.take(most)]
    assert found == sorted(float(each) for some in times for each in some)


def test_nothing_is_handed_on_while_somebody_may_have_something_earlier():
    first, second = Source("a", "t"), Source("b", "t")
    merge = Merge([first, second])
    first.page.append(event(5.0))
    assert merge.take(10) == []
    second.page.append(event(1.0))
    assert [each.time for each, _ in merge.take(10)] == [1.0]
    assert merge.take(10) == []
    second.ended = True
    assert [each.time for each, _ in merge.take(10)] == [5.0]


def test_no_more_is_asked_for_while_there_is_enough():
    source = Source("a", "t")
    merge = Merge([source])
    assert list(merge.hungry()) == [source]
    source.page.extend(event(float(number)) for number in range(FEW))
    assert list(merge.hungry()) == []
    source.page.popleft()
    assert list(merge.hungry()) == [source]
    source.asking = True
    assert list(merge.hungry()) == []


def test_what_waits_is_bounded(monkeypatch):
    monkeypatch.setattr("pubsub_core.delivery.replay_stream.MOST_WAITING", 3)
    waiting = Waiting()
    for number in range(3):
        waiting.put(number)
    assert (waiting.items, waiting.overflowed) == ([0, 1, 2], False)
    waiting.put(3)
    waiting.put(4)
    assert (waiting.items, waiting.overflowed) == ([], True)


def test_policies_see_every_time_that_is_asked_for_even_the_first():
    assert Query(0.0, None, "held('x')").context == {"from": 0.0, "during": "held('x')"}


async def test_a_replay_that_waits_has_one_timer_however_often_it_is_woken(monkeypatch):
    playback, handles = Playback("s", 1, "t", ""), []
    loop = asyncio.get_running_loop()
    call_later = loop.call_later

    def noted(*about):
        handles.append(call_later(*about))
        return handles[-1]

    monkeypatch.setattr(loop, "call_later", noted)
    for _ in range(5):
        playback.go_on_after(3600)
    assert [each.cancelled() for each in handles] == [True] * 4 + [False]
    playback.go_on()
    assert handles[-1].cancelled()
    playback.news.clear()
    playback.go_on_after(0)
    await playback.news.wait()
