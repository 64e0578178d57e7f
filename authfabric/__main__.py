"""`python -m authfabric` is the command `authfabric`."""

from authfabric.cli import main

main()
