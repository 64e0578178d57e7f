"""From traces to the figures: means with confidence intervals, by the same code whatever the trace comes from.

Availability is a ratio of two sums over the same runs, so its interval is the delta method's for ratios; the
runs (or batches of a live run, long against the time a failure lasts) are the independent observations. Response
times have long tails, so there it is medians, and their intervals by order statistics, free of any distribution.
"""

from __future__ import annotations

from math import log
from statistics import NormalDist

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from pep.asking import Strategy
from spark_eval.schemas import CELL, LIVE, P2P, PUBSUB, SIMULATION

CONFIDENCE = 0.95
FEW = 10
"""Groups of failures from which on their number is taken to be normally distributed."""
ROUNDING = 1e-9
"""What floating-point numbers may be wrong by."""


def availability(trace: DataFrame, points: int = 1) -> DataFrame:
    """For each source and cell: failing shares, and by how much fewer fail than point to point, with its interval.

    With several points the intervals are simultaneous: all of them cover together with the confidence (Bonferroni).
    """
    observed = trace.groupBy("source", *CELL, "run", "batch").agg(
        f.sum(f.when(f.col("variant") == PUBSUB, f.col("failed"))).alias("ours"),
        f.sum(f.when(f.col("variant") == P2P, f.col("failed"))).alias("theirs"),
        f.sum(f.when(f.col("variant") == PUBSUB, f.col("requests"))).alias("requests"),
        f.sum(f.when(f.col("variant") == PUBSUB, f.col("recycled"))).alias("recycled"),
        f.sum(f.when(f.col("variant") == PUBSUB, f.col("asked"))).alias("asked"),
    )
    moments = observed.groupBy("source", *CELL).agg(
        f.count("*").alias("observations"),
        f.sum("requests").alias("requests"),
        (f.sum("ours") / f.sum("requests")).alias("failing"),
        (f.sum("theirs") / f.sum("requests")).alias("failing_p2p"),
        (f.sum("recycled") / f.sum("requests")).alias("recycled"),
        (f.sum("asked") / f.sum("requests")).alias("asked"),
        f.try_divide(f.sum("ours"), f.sum("theirs")).alias("ratio"),
        f.avg("theirs").alias("mean"),
        f.var_samp("ours").alias("var_ours"),
        f.var_samp("theirs").alias("var_theirs"),
        f.covar_samp("ours", "theirs").alias("covariance"),
    )
    ratio, count = f.col("ratio"), f.col("observations")
    variance = f.col("var_ours") - 2 * ratio * f.col("covariance") + ratio * ratio * f.col("var_theirs")
    error = f.try_divide(f.sqrt(f.greatest(variance, f.lit(0.0)) / count), f.col("mean"))
    # Failures come in groups of about MTTR. Where few groups were seen, or none, there is little variance to show for
    # it; what their absence still allows is the rule of three, for groups.
    groups = f.col("failing") * f.col("requests") / f.col("mttr")
    unseen = f.try_divide(log(2 * points / (1 - CONFIDENCE)) * f.col("mttr"), f.col("mean") * count)
    least = f.when(groups < FEW, unseen).otherwise(f.lit(ROUNDING))
    margin = f.greatest(student_t(points, count - 1) * error, least)
    # Where nothing failed point to point, nothing can be said: no decrease, give or take all of it.
    known = f.col("mean") > 0
    return (
        moments.withColumn("decrease", f.when(known, 1 - ratio).otherwise(0.0))
        .withColumn("margin", f.when(known, margin).otherwise(1.0))
        .drop("ratio", "mean", "var_ours", "var_theirs", "covariance")
    )


def twins(trace: DataFrame) -> DataFrame:
    """Each live run beside the simulated run of the same sample: its requests, and whether as many of them failed.

    Not with a queue: which replica gets a question is a matter of luck there, and not of the sample.
    """
    key = [*CELL, "run", "variant"]
    runs = (
        trace.where(f.col("strategy") != str(Strategy.QUEUE))
        .groupBy("source", *key)
        .agg(f.sum("requests").alias("requests"), f.sum("failed").alias("failed"))
    )
    live, simulated = (runs.where(f.col("source") == source).drop("source") for source in (LIVE, SIMULATION))
    return live.join(simulated.withColumnRenamed("failed", "expected").drop("requests"), key).select(
        "requests", (f.col("failed") == f.col("expected")).alias("alike")
    )


def paces(trace: DataFrame) -> DataFrame:
    """For each live cell, how it was asked: the mean time between two requests, and how long answers took."""
    live = trace.where((f.col("source") == LIVE) & (f.col("variant") == PUBSUB))
    spread = f.percentile("seconds", f.array(f.lit(0.5), f.lit(0.99)))
    runs = live.groupBy(*CELL).agg(
        f.countDistinct("run").alias("runs"),
        (f.max("at") / f.max("request")).alias("interval"),
        spread.alias("spread"),
    )
    return runs.withColumns({"median": f.col("spread")[0], "p99": f.col("spread")[1]}).drop("spread")


def response_times(trace: DataFrame, windows: int) -> DataFrame:
    """For each figure and variant, in `windows` windows of consecutive requests: the median time, with its interval."""
    last = f.max("request").over(Window.partitionBy("figure"))
    window = f.floor(f.col("request") * windows / (last + 1))
    times, count = f.col("times"), f.size("times")
    spread = NormalDist().inv_cdf((1 + CONFIDENCE) / 2) / 2 * f.sqrt(count)
    low, high = (
        f.greatest(f.floor(count / 2 - spread), f.lit(1)),
        f.least(f.ceil(count / 2 + spread) + 1, count),
    )
    return (
        trace.withColumn("window", window)
        .groupBy("figure", "variant", "window")
        .agg(
            (f.max("request") + 1).alias("request"),
            f.median("seconds").alias("median"),
            f.avg("seconds").alias("mean"),
            f.sort_array(f.collect_list("seconds")).alias("times"),
            (f.sum("recycled") / f.sum("requests")).alias("recycled"),
        )
        .withColumns({"low": f.get(times, low - 1), "high": f.get(times, high - 1)})
        .drop("times", "window")
    )


def response_summary(trace: DataFrame) -> DataFrame:
    """For each figure and variant, over all its requests."""
    spread = f.percentile("seconds", f.array(f.lit(0.5), f.lit(0.99)))
    return (
        trace.groupBy("figure", "variant")
        .agg(
            f.sum("requests").alias("requests"),
            f.sum("failed").alias("failed"),
            (f.sum("recycled") / f.sum("requests")).alias("recycled"),
            f.avg("seconds").alias("mean"),
            spread.alias("spread"),
        )
        .withColumns({"median": f.col("spread")[0], "p99": f.col("spread")[1]})
        .drop("spread")
    )


def student_t(points: int, freedom: Column) -> Column:
    """Student's t quantile for two-sided simultaneous intervals at `points` points.

    By the Cornish-Fisher expansion (Abramowitz and Stegun 26.7.5): no function of Spark gives it.
    """
    z = NormalDist().inv_cdf(1 - (1 - CONFIDENCE) / points / 2)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92_160,
    )
    result = f.lit(z)
    for power, term in enumerate(terms, 1):
        result = result + term / f.pow(freedom, f.lit(power))
    return result
