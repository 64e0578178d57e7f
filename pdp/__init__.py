"""The policy decision point: policies, the engine that decides by them, and the replica that serves them."""
