"""Other engines, given the same policies and requests."""
