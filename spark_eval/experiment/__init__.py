"""Experiments on availability and response time: planned, computed, simulated on Spark, and reported."""

from spark_eval.experiment import variants
from spark_eval.experiment.cell import Cell, Population
from spark_eval.experiment.comparison import Comparison, compare_runs
from spark_eval.experiment.machine import Load, Machine, describe_machine, watching_load
from spark_eval.experiment.plan import (
    Availability,
    Experiment,
    InvalidExperiment,
    Part,
    ResponseTime,
    dump,
    load,
    shipped,
)
from spark_eval.experiment.points import (
    HitRate,
    Result,
    Twins,
    availability_points,
    pace_points,
    time_points,
    time_summaries,
)
from spark_eval.experiment.recovery import (
    ALL_AWAY,
    ALL_PDPS,
    ALL_SERVERS,
    EVENTS_ONE,
    EVENTS_TWO,
    FIGURE,
    ONE_BROKER,
    ONE_PDP,
    ONE_SERVER,
    STRUCK,
    Recovery,
    recovery_curves,
    recovery_points,
)
from spark_eval.experiment.remote import Hosts
from spark_eval.experiment.report import make_report
from spark_eval.experiment.sampling import Flags, Sample, draw_grants, generator
from spark_eval.experiment.simulation import cell_columns, draw_task, simulate, tasks

__all__ = [
    "ALL_AWAY", "ALL_PDPS", "ALL_SERVERS", "EVENTS_ONE", "EVENTS_TWO", "FIGURE", "ONE_BROKER", "ONE_PDP",
    "ONE_SERVER", "STRUCK", "Availability", "Cell", "Comparison",
    "Experiment", "Flags", "HitRate", "Hosts", "InvalidExperiment", "Load", "Machine",
    "Part", "Population", "Recovery", "ResponseTime", "Result", "Sample", "Twins", "availability_points",
    "cell_columns", "compare_runs", "describe_machine", "draw_grants", "draw_task", "dump", "generator", "load",
    "make_report", "pace_points", "recovery_curves", "recovery_points",
    "shipped", "simulate", "tasks", "time_points", "time_summaries", "variants",
    "watching_load",
]  # fmt: skip
