"""The message bus: an embedded NATS server, connections that survive faults, subjects, envelopes and ask."""
