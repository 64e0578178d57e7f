"""The PEP in web frameworks, gRPC, FastStream and FastMCP: one module each, imported by who uses that framework."""

from pep.integrations.core import PUBLIC, Problem, Refused

__all__ = ["PUBLIC", "Problem", "Refused"]
