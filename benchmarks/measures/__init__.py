"""Measurements that benchmarks share, each a part of one."""
