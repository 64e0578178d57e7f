"""The commands about trust: domains and capabilities."""
