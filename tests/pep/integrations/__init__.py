"""Tests of the integrations: each example service as a real process."""
