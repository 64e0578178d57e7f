"""FastAPI: `python examples/services/fastapi_service.py 8000`, then ask for `/documents/1` with `X-User: ann`."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from documents import DOCUMENTS, enforcer, mask
from fastapi import Depends, FastAPI

from pep.integrations.fastapi import Guard

# Take the user from what your authentication has verified. A header is for trying out.
guard = Guard(subject=lambda request: request.headers.get("x-user", "nobody"))
guard.obligation("mask")(mask)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with enforcer() as app.state.pep:
        yield


app = FastAPI(lifespan=lifespan)
guard.install(app)


@app.get("/health")
async def health() -> str:
    return "ok"


@app.get("/documents/{id}")
@guard("read", "/documents/{id}")
async def read(id: str) -> Any:
    return DOCUMENTS.get(id, {})


@app.get("/titles/{id}", dependencies=[Depends(guard.dependency("read", "/documents/{id}"))])
def title(id: str) -> Any:
    return {"title": DOCUMENTS[id]["title"]}


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]), log_level="warning")
