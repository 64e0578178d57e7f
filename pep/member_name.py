"""What a process is called among the members of a domain."""

from __future__ import annotations

import os
import secrets
import socket


def member_name(name: str) -> str:
    """A name that no other member of any domain has."""
    return f"{name}-{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
