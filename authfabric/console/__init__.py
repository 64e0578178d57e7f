"""The console: what a fabric does, live in a browser, for those who run it."""

from typing import TYPE_CHECKING

from authz.lazy import lazily

if TYPE_CHECKING:
    from authfabric.console.app import Parts, console
    from authfabric.console.event_view import read_types
    from authfabric.console.fabric_watch_service import Live
    from authfabric.console.granting import Granting
    from authfabric.console.oidc import OidcSignIn, Provider, read_provider
    from authfabric.console.questions import Questions
    from authfabric.console.releasing import Releasing
    from authfabric.console.viewers import InvalidViewers, Viewer, Viewers, read_viewers, token_hash

__all__ = [
    "Granting", "InvalidViewers", "Live", "OidcSignIn", "Parts", "Provider", "Questions", "Releasing", "Viewer",
    "Viewers", "console", "read_provider", "read_types", "read_viewers", "token_hash",
]  # fmt: skip

__getattr__ = lazily(
    __name__,
    {
        ".app": "Parts console",
        ".event_view": "read_types",
        ".granting": "Granting",
        ".fabric_watch_service": "Live",
        ".oidc": "OidcSignIn Provider read_provider",
        ".questions": "Questions",
        ".releasing": "Releasing",
        ".viewers": "InvalidViewers Viewer Viewers read_viewers token_hash",
    },
)
