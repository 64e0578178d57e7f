"""The form of an application file: the fields that people write, and which values they take."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from bus.wire import DEFAULT_DOMAIN
from pubsub_core.types import AttributeType

ROUTED = "routed"
SENSITIVITIES = ("clear", "sealed", ROUTED)
"""Readable by whoever carries an event, or by those alone who hold the key; and by the last events are routed too."""
_TYPES = "|".join(AttributeType)
NAME = r"^[A-Za-z][A-Za-z0-9_-]*$"
"""How names of types, brokers and clients are spelled."""

FOR_EVER = "for ever"

Name = Annotated[str, msgspec.Meta(pattern=NAME)]
Attribute = Annotated[
    str,
    msgspec.Meta(
        pattern=rf"^({_TYPES})(, *({'|'.join(SENSITIVITIES)}))?$",
        description="The attribute's type, and how sensitive it is: `string`, `string, sealed` or `string, routed`.",
    ),
]
Keep = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^(for ever|nothing|[1-9][0-9]{0,8}[smhd])$",
        description="How long past events are kept: `for ever`, `nothing`, or a length such as 90d.",
    ),
]


class TypeText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A type of event."""

    attributes: dict[str, Attribute]
    owner: Name = ""
    """Whose key signs it. Default: the application's owner."""
    keep: Keep = FOR_EVER
    together: list[list[str]] = []
    """Sealed attributes that share a key, since the same may read them."""


class BrokerText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A broker, which hosts clients."""

    history: str = ""
    """Where events are kept that its clients publish: `default` for a file, or a database's URL. None by default."""
    reads: dict[str, Literal["all"] | list[str]] = {}
    """Sealed attributes whose keys it gets besides those that its clients need."""


class SubscriptionText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a client may receive of a type."""

    sees: Literal["all"] | list[str] = "all"
    where: str = ""
    """A filter that every event must pass; `$name` stands for an attribute of the client."""
    replay: bool = True
    """Whether it may have past events too."""


class ClientText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A client: what it publishes, and what it sees."""

    broker: str | list[str] = ""
    """The broker that hosts it, or several: then it goes on at another when one is lost. Default: the only one."""
    publishes: list[str] = []
    subscribes: dict[str, Literal["all"] | list[str] | SubscriptionText] = {}
    """By type: `all`, the attributes that it sees, or these and a condition."""
    roles: list[str] = []
    """Its roles, for which rules ask."""
    attributes: dict[str, Any] = {}
    """What policies, rules and filters know of it."""


class ApplicationText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An event application."""

    types: dict[str, TypeText]
    clients: dict[Name, ClientText]
    application: Name = ""
    """Its name. Default: the file's."""
    owner: Name = "owner"
    """The owner of its types, unless they name another; it also issues the clients' credentials."""
    brokers: dict[Name, BrokerText] = {}
    """Default: one, with the application's name."""
    rules: str | list[str] = ""
    """Rules of interaction control: the text itself, or the names of files beside this one."""
    domain: str = DEFAULT_DOMAIN


FIELDS = sorted(
    {
        each
        for kind in (ApplicationText, TypeText, BrokerText, ClientText, SubscriptionText)
        for each in kind.__struct_fields__
    }
)
"""The names of all fields, for suggestions."""


def application_schema() -> dict[str, Any]:
    """The JSON Schema of application files, for editors."""
    schema = msgspec.json.schema(ApplicationText)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "An event application of authfabric",
        **schema,
    }
