"""Releases of policies: compiled, prepared, published, and restored where a store has lost them."""

from typing import TYPE_CHECKING

from authz.lazy import lazily

if TYPE_CHECKING:
    from pdp.releases.compile_service import Compiler
    from pdp.releases.preparing_service import report_prepared
    from pdp.releases.progress import logging_progress
    from pdp.releases.publisher_service import NoSuchRelease, Published, Publisher
    from pdp.releases.restorer_service import Plan, Restorer, Side, plan

__all__ = [
    "Compiler", "NoSuchRelease", "Plan", "Published", "Publisher", "Restorer", "Side", "logging_progress", "plan",
    "report_prepared",
]  # fmt: skip

__getattr__ = lazily(
    __name__,
    {
        ".compile_service": "Compiler",
        ".preparing_service": "report_prepared",
        ".progress": "logging_progress",
        ".publisher_service": "NoSuchRelease Published Publisher",
        ".restorer_service": "Plan Restorer Side plan",
    },
)
