"""The commands about event brokers: run them, vouch for them, and issue credentials to their clients."""
