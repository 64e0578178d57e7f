"""Policies, populations and requests to measure with."""
