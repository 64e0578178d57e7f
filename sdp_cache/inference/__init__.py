"""Answers that follow from earlier answers: precise recycling, SAAM-RBAC, SAAM-BLP and decision certificates."""

from sdp_cache.inference.certificates import CertificateCache
from sdp_cache.inference.precise import METHOD as PRECISE
from sdp_cache.inference.precise import PreciseCache
from sdp_cache.inference.precomputed import Precomputed
from sdp_cache.inference.saam_blp import SaamBlp
from sdp_cache.inference.saam_rbac import SaamRbac

__all__ = ["PRECISE", "CertificateCache", "PreciseCache", "Precomputed", "SaamBlp", "SaamRbac"]
