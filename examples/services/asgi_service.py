"""Any ASGI application behind one middleware: `python examples/services/asgi_service.py 8000`."""

import json
import sys
from typing import Any

import uvicorn
from documents import DOCUMENTS, enforcer

from pep import Enforcer
from pep.integrations import PUBLIC
from pep.integrations.asgi import GuardMiddleware, Receive, Routed, Scope, Send

running: dict[str, Enforcer] = {}


async def documents(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that knows nothing of permissions."""
    if scope["type"] == "lifespan":
        await serve_lifespan(receive, send)
        return
    found: Any = DOCUMENTS.get(scope["path"].rpartition("/")[2], "ok")
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(found).encode()})


async def serve_lifespan(receive: Receive, send: Send) -> None:
    await receive()
    async with enforcer() as running["pep"]:
        await send({"type": "lifespan.startup.complete"})
        await receive()
    await send({"type": "lifespan.shutdown.complete"})


def route(scope: Scope) -> Routed:
    """What is asked about a request. What is not named here is denied."""
    user = dict(scope["headers"]).get(b"x-user", b"nobody").decode()
    if scope["path"] == "/health":
        return PUBLIC
    if scope["type"] == "http" and scope["path"].startswith("/documents/"):
        return user, scope["path"], "read"
    return None


app = GuardMiddleware(documents, route, lambda: running["pep"])

if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]), log_level="warning")
