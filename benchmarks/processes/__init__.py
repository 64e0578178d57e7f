"""Processes that benchmarks start beside themselves."""
