"""A service that asks before it hands out documents. Run `authfabric up` first."""

import asyncio

from authz import Entity
from pep import AccessDenied, Enforcer

DOCUMENTS = {
    "/sales/q1": "Revenue rose.",
    "/public/menu": "Soup, bread, cheese.",
}


class DocumentService:
    """Hands a document to whoever may read it."""

    def __init__(self, pep: Enforcer) -> None:
        self._pep = pep

    async def read(self, user: str, path: str) -> str:
        await self._pep.require(user, path, "read")
        return DOCUMENTS[path]

    async def approve(self, user: str, role: str, path: str, amount: int) -> str:
        await self._pep.require(
            Entity(user, {"role": role}),
            Entity(path, {"amount": amount}),
            "approve",
        )
        return f"{user} approved {amount} for {path}"


async def main() -> None:
    async with Enforcer.connect() as pep:
        service = DocumentService(pep)
        print(await service.read("alice", "/sales/q1"))
        print(await service.read("bob", "/public/menu"))
        print(await service.approve("bob", "manager", "/sales/q1", 500))
        try:
            print(await service.read("bob", "/sales/q1"))
        except AccessDenied as error:
            print(f"refused: {error}")


if __name__ == "__main__":
    asyncio.run(main())
