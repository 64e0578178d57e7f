"""Policy documents as values that know their places, and what is found wrong in them."""

from pdp.documents.document import Document
from pdp.documents.finding import Finding, Kind, Level
from pdp.documents.validation_errors import Misfit, Place, misfits

__all__ = ["Document", "Finding", "Kind", "Level", "Misfit", "Place", "misfits"]
