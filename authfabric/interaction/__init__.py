"""What interaction-control rules would do: checked against event types, and explained, without a broker."""

from authfabric.interaction.check import Surroundings, check_use
from authfabric.interaction.explain import Situation, explain_rules
from authfabric.interaction.view import show_report

__all__ = ["Situation", "Surroundings", "check_use", "explain_rules", "show_report"]
