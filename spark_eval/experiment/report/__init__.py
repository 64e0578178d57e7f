"""The report of an experiment: the paper's figures, and what lies beyond them."""

from spark_eval.experiment.report.experiment_report import make_report

__all__ = ["make_report"]
