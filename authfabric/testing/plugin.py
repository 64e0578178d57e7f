"""The pytest plugin of `authfabric[test]`.

`fabric` is the real engine in process, without NATS, in milliseconds. It decides by what the marker
`@pytest.mark.policies(...)` says, or the setting `authfabric_policies`. `real_fabric` is a NATS server and a PDP
replica for the whole session.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from authfabric.testing.doubles import TestedFabric
    from pep import Enforcer

SETTING = "authfabric_policies"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(SETTING, "The folder of policies that the fixture `fabric` decides by.", "paths", [])


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "policies(given, attributes=None): what `fabric` decides by: a folder, or a text of policies; and the file that"
        " says where provided attributes are looked up",
    )


@pytest.fixture
def fabric(request: pytest.FixtureRequest) -> Iterator[TestedFabric]:
    """The real engine in process, and what a test does with it: see TestedFabric."""
    from authfabric.testing.doubles import TestedFabric

    with contextlib.closing(TestedFabric(_policies(request), _attributes(request))) as tested:
        yield tested


def _policies(request: pytest.FixtureRequest) -> Path | str | dict[str, str]:
    marker = request.node.get_closest_marker("policies")
    if marker is None:
        return next(iter(request.config.getini(SETTING)), "")
    from pep.local import folder_named

    given: Path | str | dict[str, str] = marker.args[0]
    folder = folder_named(given)
    return given if folder is None else request.config.rootpath / folder


def _attributes(request: pytest.FixtureRequest) -> Path | None:
    marker = request.node.get_closest_marker("policies")
    given = None if marker is None else marker.kwargs.get("attributes")
    return None if given is None else request.config.rootpath / given


@dataclass(frozen=True, slots=True)
class RealFabric:
    """A running fabric, and what a service needs to use it."""

    url: str
    credentials: Path
    """AUTHFABRIC_CREDENTIALS for a service in another process."""

    def connect(self) -> AbstractAsyncContextManager[Enforcer]:
        """An Enforcer of this fabric, for the length of a block."""
        from bus.identity import read_credentials
        from pep import Enforcer

        return Enforcer.connect(
            self.url, credentials=read_credentials(self.credentials).credentials, deadline=10.0
        )


@pytest.fixture(scope="session")
def real_fabric(request: pytest.FixtureRequest) -> Iterator[RealFabric]:
    """The whole fabric: server, access control, a replica with the policies of the settings, or the default ones."""
    from authfabric.files import DEFAULT_POLICIES
    from authfabric.processes import SERVICE
    from authfabric.processes import fabric as running_fabric
    from pep.sync import LoopThread

    policies = next(iter(request.config.getini(SETTING)), DEFAULT_POLICIES)
    with contextlib.closing(LoopThread()) as loop:
        context = running_fabric(1, secure=True, policies=policies)
        running = loop.run(context.__aenter__())
        try:
            credentials = running.hand_out("service", SERVICE)
            assert credentials is not None
            yield RealFabric(running.url, credentials)
        finally:
            loop.run(context.__aexit__(None, None, None))
