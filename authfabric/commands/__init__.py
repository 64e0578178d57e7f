"""The commands of `authfabric`, one module for each group."""
