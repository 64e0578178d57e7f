"""What clients of the event service embed: connect, publish, subscribe, replay."""

from pubsub_core.client.client import CallRefused, EventClient
from pubsub_core.client.cloud_events import CloudEvent, read_cloud_event, to_cloud_event
from pubsub_core.client.durable import DurableEvent, DurableSubscriber
from pubsub_core.client.json_values import attribute_named, json_values, read_value, read_values
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
from pubsub_core.client.typed import Condition, Event, Place, define, event_class, stubs

__all__ = [
    "PROFILE_VARIABLE", "CallRefused", "CloudEvent", "Condition", "Delivered", "DurableEvent", "DurableSubscriber",
    "Event", "EventClient", "Place", "Profile", "ProfileFile", "ProfileRefused", "Publisher", "Replayed", "Subscriber",
    "attribute_named", "define", "event_class", "json_values", "known_profiles", "profile_path", "read_cloud_event",
    "read_profile", "read_profile_file", "read_value", "read_values", "stubs", "to_cloud_event", "write_profile",
]  # fmt: skip
