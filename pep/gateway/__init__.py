"""AuthZEN 1.0 over HTTP: the policy enforcement point for services in any language."""

from pep.gateway.app import gateway
from pep.gateway.settings import Caller, GatewaySettings, InvalidSettings, Jwt, read_settings

__all__ = ["Caller", "GatewaySettings", "InvalidSettings", "Jwt", "gateway", "read_settings"]
