"""Tests see to it themselves that brokers know each other."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _settled(monkeypatch):
    monkeypatch.setattr("pubsub_core.replay.service.SETTLE_SECONDS", 0.0)
