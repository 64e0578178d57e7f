"""A broker's own functions, which rules may call: they run in a process that can do nothing but compute."""

from pubsub_core.functions.functions_service import Functions, Limits

__all__ = ["Functions", "Limits"]
