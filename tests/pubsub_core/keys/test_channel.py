"""What a client and its broker say to each other is for the two of them alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz import Identity
from pubsub_core.keys.channel import Channel, Channels
from pubsub_core.keys.errors import CannotOpen

BROKER = Identity.from_seed(b"b" * 32)


@given(st.lists(st.tuples(st.booleans(), st.binary()), max_size=6))
def test_messages_go_both_ways(messages):
    channels = Channels(BROKER)
    client = Channel.to(channels.public)
    _, broker = channels.open(client.seal(b"first"))
    for from_client, message in messages:
        if from_client:
            assert channels.open(client.seal(message)) == (message, broker)
        else:
            assert client.open(broker.seal(message)) == message


def test_a_broker_that_was_restarted_still_understands_its_clients():
    client = Channel.to(Channels(BROKER).public)
    client.seal(b"before")
    message, broker = Channels(BROKER).open(client.seal(b"after"))
    assert message == b"after"
    assert client.open(broker.seal(b"answer")) == b"answer"


def test_nobody_else_understands_and_nothing_is_taken_from_another():
    channels = Channels(BROKER)
    one, other = Channel.to(channels.public), Channel.to(channels.public)
    sealed = one.seal(b"secret")
    assert b"secret" not in sealed
    with pytest.raises(CannotOpen):
        Channels(Identity.generate()).open(sealed)
    _, broker = channels.open(sealed)
    with pytest.raises(CannotOpen):
        other.open(broker.seal(b"for one"))
    with pytest.raises(CannotOpen):
        one.open(sealed)  # its own words come back
    for end in (0, 10, 50, len(sealed) - 1):
        with pytest.raises(CannotOpen):
            channels.open(sealed[:end])


def test_strangers_do_not_drive_clients_out():
    channels = Channels(BROKER)
    for n in range(20):
        with pytest.raises(CannotOpen):
            channels.open(n.to_bytes(32, "little") + bytes(60))
    assert len(channels._known) == 0
