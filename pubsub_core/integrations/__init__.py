"""Events in frameworks for messages: one module each, imported by who uses that framework."""
