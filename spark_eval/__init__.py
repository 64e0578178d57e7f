"""Spark jobs over the fabric: precomputed decisions, policy comparison and availability experiments."""
