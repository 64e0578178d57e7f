"""Attributes that only PDPs know: providers, and requests enriched by them."""

from pdp.attributes.bus_provider import BusProvider
from pdp.attributes.enrichment import Enricher, unavailable
from pdp.attributes.file_provider import FileProvider, read_provider_file
from pdp.attributes.provider_reader import FileText, ProviderText, ServiceText
from pdp.attributes.providers import CachingProvider, Known, Provider, ProviderFailed

__all__ = [
    "BusProvider", "CachingProvider", "Enricher", "FileProvider", "FileText", "Known", "Provider", "ProviderFailed",
    "ProviderText", "ServiceText", "read_provider_file", "unavailable",
]  # fmt: skip
