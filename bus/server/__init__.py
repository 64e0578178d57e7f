"""The embedded NATS server: its configuration, its auth callout, and who may use which subject."""

from bus.server.callout_tokens import Admission, Arrival, admit, read_arrival, refuse
from bus.server.disk_reserve_service import DiskReserve
from bus.server.nats_server import NatsServer, cluster, find_binary, free_ports
from bus.server.server_config import ACCOUNT, Links, Security, ServiceKeys
from bus.server.subject_permissions import Carried, Permissions, permissions
from bus.server.system_account import Connected, System

__all__ = [
    "ACCOUNT", "Admission", "Arrival", "Carried", "Connected", "DiskReserve", "Links", "NatsServer", "Permissions",
    "Security", "ServiceKeys", "System", "admit", "cluster", "find_binary", "free_ports", "permissions",
    "read_arrival", "refuse",
]  # fmt: skip
