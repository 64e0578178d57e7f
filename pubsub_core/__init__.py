"""The secure event service: typed, owned, restricted events governed by the fabric."""
