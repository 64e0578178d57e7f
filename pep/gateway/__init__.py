"""AuthZEN 1.0 over HTTP: the policy enforcement point for services in any language."""

from typing import TYPE_CHECKING

from authz.lazy import lazily
from pep.gateway.app import gateway
from pep.gateway.settings import Caller, GatewaySettings, InvalidSettings, Jwt

if TYPE_CHECKING:
    from pep.gateway.callers import JwtIssuer
    from pep.gateway.server import CannotListen, Tls, serving

__all__ = [
    "Caller", "CannotListen", "GatewaySettings", "InvalidSettings", "Jwt", "JwtIssuer", "Tls", "gateway",
    "serving",
]  # fmt: skip

__getattr__ = lazily(__name__, {".callers": "JwtIssuer", ".server": "CannotListen Tls serving"})
