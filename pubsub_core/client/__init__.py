"""What clients of the event service embed: connect, publish, subscribe, replay."""

from pubsub_core.client.client import CallRefused, EventClient
from pubsub_core.client.durable import DurableEvent, DurableSubscriber
from pubsub_core.client.profile import (
    PROFILE_VARIABLE,
    Profile,
    ProfileFile,
    ProfileRefused,
    known_profiles,
    profile_path,
    read_profile,
    read_profile_file,
    write_profile,
)
from pubsub_core.client.publisher import Publisher
from pubsub_core.client.replay_reader import Replayed
from pubsub_core.client.subscriber import Delivered, Subscriber

__all__ = [
    "PROFILE_VARIABLE", "CallRefused", "Delivered", "DurableEvent", "DurableSubscriber", "EventClient", "Profile",
    "ProfileFile", "ProfileRefused", "Publisher", "Replayed", "Subscriber", "known_profiles", "profile_path",
    "read_profile", "read_profile_file", "write_profile",
]  # fmt: skip
