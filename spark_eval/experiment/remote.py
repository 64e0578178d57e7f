"""Other machines that a plan names: PDPs are started there over SSH."""

from __future__ import annotations

from typing import Annotated

import msgspec


class RemoteHost(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A machine with authfabric on it, which lets this one in by a key, without a question."""

    ssh: Annotated[str, msgspec.Meta(min_length=1)]
    """What to give `ssh`: `USER@HOST`, or a name of its configuration."""
    address: Annotated[str, msgspec.Meta(min_length=1)]
    """Where PDPs there listen, as this machine reaches it."""
    python: str = "python3"
    """The interpreter there that has authfabric."""
    options: tuple[str, ...] = ()
    """Further options for `ssh`, such as a port or a key."""


class Hosts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """PDPs of live runs take turns on these machines; those of response times that are far are there, too."""

    here: Annotated[str, msgspec.Meta(min_length=1)]
    """The address at which they all reach this machine: the servers of the experiment listen there, without a lock."""
    remote: Annotated[tuple[RemoteHost, ...], msgspec.Meta(min_length=1)]
