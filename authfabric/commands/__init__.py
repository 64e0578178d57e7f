"""The commands of `authfabric`, in a folder for each section of `authfabric --help`."""
