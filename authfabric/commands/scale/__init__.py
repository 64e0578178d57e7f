"""The commands for work at scale: Spark jobs, experiments and chaos."""
