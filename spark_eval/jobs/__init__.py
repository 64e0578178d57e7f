"""Jobs: read, transform, write. Everything here does I/O; what it computes is elsewhere."""
