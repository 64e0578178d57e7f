"""Experiments on availability and response time: computed, simulated on Spark, and run live on NATS."""

from spark_eval.experiment.plan import Experiment, InvalidExperiment, load

__all__ = ["Experiment", "InvalidExperiment", "load"]
