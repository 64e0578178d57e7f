"""Scenarios of the event service that run: each plays a story over real brokers, and tells who saw what."""
