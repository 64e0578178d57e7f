"""`python -m authfabric` is the command `authfabric`."""

from authfabric.entry import main

main()
