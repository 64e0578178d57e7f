"""The fabric of a chaos run: servers, links that can be cut, members, brokers, disks and clocks."""

from authfabric.chaos.testbed.cluster import NODES, Cluster
from authfabric.chaos.testbed.event_service import BROKERS, CLIENTS, EventService
from authfabric.chaos.testbed.members import Members

__all__ = ["BROKERS", "CLIENTS", "NODES", "Cluster", "EventService", "Members"]
