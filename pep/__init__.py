"""The policy enforcement point: what a service embeds."""
