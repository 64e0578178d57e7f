"""FastMCP over HTTP: `python examples/services/fastmcp_service.py 8000`. Tools and resources are objects."""

import asyncio
import sys
from typing import Any

from documents import DOCUMENTS, enforcer, mask
from fastmcp import FastMCP
from fastmcp.server.dependencies import get_http_headers

from pep.integrations.fastmcp import Guard

mcp = FastMCP("documents")


@mcp.tool
def look_up(id: str) -> dict[str, Any]:
    """A document."""
    return DOCUMENTS[id]


@mcp.tool
def delete(id: str) -> str:
    """Delete a document."""
    return f"deleted {id}"


@mcp.resource("documents://index")
def index() -> str:
    """Which documents there are."""
    return ", ".join(DOCUMENTS)


async def main() -> None:
    async with enforcer() as pep:
        pep.obligation("mask")(mask)
        # Without a function the subject is the one that the access token names. A header is for trying out.
        mcp.add_middleware(Guard(pep, subject=lambda context: get_http_headers().get("x-user", "nobody")))
        await mcp.run_http_async(port=int(sys.argv[1]), show_banner=False, log_level="warning")


if __name__ == "__main__":
    asyncio.run(main())
