"""The processes of a fabric: what each `serve` command runs, and how they are started on this machine."""

from typing import TYPE_CHECKING

from authz.lazy import lazily

if TYPE_CHECKING:
    from authfabric.processes.console_process import ConsoleProcess, Served, serve_console
    from authfabric.processes.domain_process import (
        DomainProcess,
        RevocationPending,
        RoleRules,
        role_rules,
        serve_domain,
        tell,
    )
    from authfabric.processes.event_processes import (
        EventProcesses,
        Hosted,
        HostedApplication,
        HostedKind,
        all_hosted,
        differences,
        forget_hosted,
        hosted_logs,
        hosted_managers,
        hosted_status,
        note_hosted,
        read_hosted,
    )
    from authfabric.processes.launcher import Fabric, ReplicaProcess, environment_of, fabric
    from authfabric.processes.local_domain import OPERATOR, REPLICA, SERVICE, LocalDomain
    from authfabric.processes.memory import collect_garbage_rarely, keep_freed_memory
    from authfabric.processes.metrics import AccessMetrics, ManagerMetrics
    from authfabric.processes.pdp_process import PdpProcess, serve_pdp
    from authfabric.processes.role_process import RoleProcess, serve_roles
    from authfabric.processes.vitals import ConnectionMetrics, ProcessVitals, process_vitals

__all__ = [
    "OPERATOR", "REPLICA", "SERVICE", "AccessMetrics", "ConnectionMetrics", "ConsoleProcess", "DomainProcess",
    "EventProcesses", "Fabric", "Hosted", "HostedApplication", "HostedKind", "LocalDomain", "ManagerMetrics",
    "PdpProcess", "ProcessVitals", "ReplicaProcess", "RevocationPending", "RoleProcess", "RoleRules", "Served",
    "all_hosted", "collect_garbage_rarely", "differences", "environment_of", "fabric", "forget_hosted",
    "hosted_logs", "hosted_managers", "hosted_status", "keep_freed_memory", "note_hosted", "process_vitals",
    "read_hosted", "role_rules", "serve_console", "serve_domain", "serve_pdp", "serve_roles", "tell",
]  # fmt: skip

__getattr__ = lazily(
    __name__,
    {
        ".console_process": "ConsoleProcess Served serve_console",
        ".domain_process": "DomainProcess RevocationPending RoleRules role_rules serve_domain tell",
        ".event_processes": "EventProcesses Hosted HostedApplication HostedKind all_hosted differences"
        " forget_hosted hosted_logs hosted_managers hosted_status note_hosted read_hosted",
        ".launcher": "Fabric ReplicaProcess environment_of fabric",
        ".local_domain": "OPERATOR REPLICA SERVICE LocalDomain",
        ".memory": "collect_garbage_rarely keep_freed_memory",
        ".metrics": "AccessMetrics ManagerMetrics",
        ".pdp_process": "PdpProcess serve_pdp",
        ".role_process": "RoleProcess serve_roles",
        ".vitals": "ConnectionMetrics ProcessVitals process_vitals",
    },
)
