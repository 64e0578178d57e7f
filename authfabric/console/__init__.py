"""The console: what a fabric does, live in a browser, for those who run it."""

from typing import TYPE_CHECKING

from authz.lazy import lazily

if TYPE_CHECKING:
    from authfabric.console.app import console
    from authfabric.console.live_service import Live
    from authfabric.console.releasing import Releasing
    from authfabric.console.viewers import InvalidViewers, Viewer, Viewers, read_viewers, token_hash

__all__ = [
    "InvalidViewers", "Live", "Releasing", "Viewer", "Viewers", "console", "read_viewers", "token_hash",
]  # fmt: skip

__getattr__ = lazily(
    __name__,
    {
        ".app": "console",
        ".live_service": "Live",
        ".releasing": "Releasing",
        ".viewers": "InvalidViewers Viewer Viewers read_viewers token_hash",
    },
)
