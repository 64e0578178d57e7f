"""What every process of the fabric runs on: tasks, the event loop, child processes, logs, health over HTTP."""

from typing import TYPE_CHECKING

from authz.lazy import lazily
from bus.runtime.event_loop import Turns, run_fast
from bus.runtime.tasks import Work, all_or_none, begin_work, end_task, in_background, result_within

if TYPE_CHECKING:
    from bus.runtime.health_server import Collectors, HealthTls, serve_vitals
    from bus.runtime.latency import Latencies
    from bus.runtime.logs import (
        FORMAT_VARIABLE,
        LEVEL_VARIABLE,
        LogFormat,
        LogLevel,
        LogLine,
        configure_logs,
        log_settings,
    )
    from bus.runtime.process import ProcessFailed, ServingProcess, end_with_parent, signal_process
    from bus.runtime.tracing import TRACES, OpenSpan, Traces

__all__ = [
    "FORMAT_VARIABLE", "LEVEL_VARIABLE", "TRACES", "Collectors", "HealthTls", "Latencies", "LogFormat", "LogLevel",
    "LogLine", "OpenSpan", "ProcessFailed", "ServingProcess", "Traces", "Turns", "Work", "all_or_none", "begin_work",
    "configure_logs", "end_task", "end_with_parent", "in_background", "log_settings", "result_within", "run_fast",
    "serve_vitals", "signal_process",
]  # fmt: skip

__getattr__ = lazily(
    __name__,
    {
        ".health_server": "Collectors HealthTls serve_vitals",
        ".latency": "Latencies",
        ".logs": "FORMAT_VARIABLE LEVEL_VARIABLE LogFormat LogLevel LogLine configure_logs log_settings",
        ".process": "ProcessFailed ServingProcess end_with_parent signal_process",
        ".tracing": "TRACES OpenSpan Traces",
    },
)
