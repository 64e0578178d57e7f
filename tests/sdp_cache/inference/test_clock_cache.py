from sdp_cache.inference.clock_cache import ClockCache


class Entry:
    def __init__(self):
        self.used = False


def test_it_holds_no_more_than_its_size():
    cache = ClockCache(3)
    for n in range(10):
        cache[n] = Entry()
    assert list(cache) == [7, 8, 9]


def test_what_was_used_since_its_last_turn_stays_once_more():
    cache = ClockCache(3)
    for n in range(3):
        cache[n] = Entry()
    cache[0].used = True
    cache[3] = Entry()
    assert set(cache) == {0, 2, 3}
    cache[4] = Entry()
    assert set(cache) == {0, 3, 4}
    cache[5] = Entry()
    assert set(cache) == {3, 4, 5}


def test_when_all_were_used_the_oldest_goes():
    cache = ClockCache(3)
    for n in range(3):
        cache[n] = Entry()
        cache[n].used = True
    cache[3] = Entry()
    assert set(cache) == {1, 2, 3}


def test_a_missing_key_reads_as_none():
    assert ClockCache(1)["nothing"] is None
