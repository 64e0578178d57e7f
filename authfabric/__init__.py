"""The application: the command line, `up`, the demo. The only place that wires everything."""
