"""History: events kept by the broker that hosted their publisher, sealed at rest, found again by filter and time."""
