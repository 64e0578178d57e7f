"""What a client and its broker say to each other is for the two of them alone, then and later."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubsub_core.keys.channel import Channel, Channels, Offer
from pubsub_core.keys.errors import CannotOpen


def meet(channels: Channels) -> Channel:
    """A client's end of a new channel."""
    offer = Offer()
    return offer.accept(channels.answer(offer.public))


@given(st.lists(st.tuples(st.booleans(), st.binary()), max_size=6))
def test_messages_go_both_ways(messages):
    channels = Channels()
    client = meet(channels)
    _, broker = channels.open(client.seal(b"first"))
    for from_client, message in messages:
        if from_client:
            assert channels.open(client.seal(message)) == (message, broker)
        else:
            assert client.open(broker.seal(message)) == message


def test_nobody_else_understands_and_nothing_is_taken_from_another():
    channels = Channels()
    one, other = meet(channels), meet(channels)
    sealed = one.seal(b"secret")
    assert b"secret" not in sealed
    _, broker = channels.open(sealed)
    with pytest.raises(CannotOpen):
        other.open(broker.seal(b"for one"))
    with pytest.raises(CannotOpen):
        one.open(sealed)  # its own words come back
    for end in (0, 10, 50, len(sealed) - 1):
        with pytest.raises(CannotOpen):
            channels.open(sealed[:end])


def test_both_ends_know_a_channel_by_what_no_other_channel_has():
    channels = Channels()
    one, other = meet(channels), meet(channels)
    _, broker = channels.open(one.seal(b""))
    assert one.binding == broker.binding != other.binding


def test_nobody_draws_a_channel_in_place_of_anothers():
    """The client's half goes with each message, for all servers to see."""
    channels = Channels()
    client = meet(channels)
    with pytest.raises(CannotOpen):
        channels.answer(client.seal(b"")[:32])
    assert channels.open(client.seal(b"still here"))[0] == b"still here"


def test_strangers_do_not_drive_clients_out_who_have_a_session(monkeypatch):
    monkeypatch.setattr("pubsub_core.keys.channel.MAX_OFFERED", 4)
    channels = Channels()
    client = meet(channels)
    _, session = channels.open(client.seal(b"connect"))
    gone = meet(channels)
    for _ in range(20):
        meet(channels)
    assert channels.open(client.seal(b"more")) == (b"more", session)
    with pytest.raises(CannotOpen):
        channels.open(gone.seal(b"too late"))
    assert len(channels._known) == 5


@pytest.mark.parametrize("half", [b"", b"short", bytes(32)])
def test_what_is_no_half_of_a_channel_begins_none(half):
    with pytest.raises(CannotOpen):
        Channels().answer(half)
    with pytest.raises(CannotOpen):
        Offer().accept(half)
