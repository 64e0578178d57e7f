"""Scenarios of the event service: each plays a story over real brokers, and tells who saw what."""

from authfabric.scenarios.testbed import Domain, ServerMode, stage
from authfabric.scenarios.viewing import Outcome

__all__ = ["Domain", "Outcome", "ServerMode", "stage"]
