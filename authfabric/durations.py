"""Lengths of time as people write them: 90s, 15m, 8h, 30d."""

from __future__ import annotations

import re

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def seconds_of(text: str) -> int | None:
    """How many seconds a text stands for; None if it is of another form."""
    found = re.fullmatch(r"([1-9][0-9]{0,8})([smhd])", text)
    return int(found[1]) * _UNITS[found[2]] if found else None
