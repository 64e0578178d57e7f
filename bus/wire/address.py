"""Where servers are: what a URL names, how it may be shown, and what the environment says."""

from __future__ import annotations

import os
import re
from urllib.parse import urlsplit

from bus.errors import NotConnected

URL_VARIABLE = "AUTHFABRIC_NATS_URL"
DEFAULT_URL = "nats://127.0.0.1:4222"


def servers(url: str) -> list[str]:
    """The servers that a URL names, each an address that NATS can have. Raises NotConnected."""
    named = [each.strip() for each in url.split(",")]
    for each in named:
        try:
            parts = urlsplit(each if "://" in each else f"nats://{each}")
            good = parts.scheme in ("nats", "tls") and parts.hostname and parts.port != 0
        except ValueError:
            good = False
        if not good:
            raise NotConnected(without_secrets(each), "no address of a NATS server: write nats://HOST:PORT")
    return named


def without_secrets(url: str) -> str:
    """The URL without the user name, password or token in it."""
    return re.sub(r"//[^/@,]*@", "//", url)


def configured_url() -> str | None:
    """The external server named by the environment, if any."""
    return os.environ.get(URL_VARIABLE) or None
