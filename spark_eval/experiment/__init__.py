"""Experiments on availability and response time: computed, simulated on Spark, and run live on NATS."""

from spark_eval.experiment.live_service import run_live
from spark_eval.experiment.plan import Experiment, InvalidExperiment, Part, dump, load, shipped
from spark_eval.experiment.points import Result, Twins, availability_points, time_points, time_summaries
from spark_eval.experiment.report import make_report
from spark_eval.experiment.response_service import count_requests, run_response_times
from spark_eval.experiment.simulation import simulate, tasks

__all__ = [
    "Experiment", "InvalidExperiment", "Part", "Result", "Twins", "availability_points", "count_requests",
    "dump", "load", "make_report", "run_live", "run_response_times", "shipped", "simulate", "tasks",
    "time_points", "time_summaries",
]  # fmt: skip
