"""Two brokers without a network, for each test."""

from __future__ import annotations

import pytest

from tests.pubsub_core.pair import Pair


@pytest.fixture
def pair() -> Pair:
    return Pair()
