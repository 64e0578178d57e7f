"""FastAPI: the guard of Starlette, which it is made of."""

from pep.integrations.starlette import Denied, Guard

__all__ = ["Denied", "Guard"]
