"""What tests of services use: a pytest plugin with an engine in process, a real fabric, and a matrix of routes."""

from typing import TYPE_CHECKING

from authz.lazy import lazily

if TYPE_CHECKING:
    from authfabric.testing.doubles import TestedFabric
    from authfabric.testing.matrix import Cell, Matrix, Route, routes_of

__all__ = ["Cell", "Matrix", "Route", "TestedFabric", "routes_of"]

__getattr__ = lazily(
    __name__,
    {
        ".doubles": "TestedFabric",
        ".matrix": "Cell Matrix Route routes_of",
    },
)
