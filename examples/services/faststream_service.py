"""FastStream on NATS: `python examples/services/faststream_service.py nats://127.0.0.1:4222`."""

import asyncio
import sys
from typing import Any

from documents import DOCUMENTS, enforcer, mask
from faststream import FastStream
from faststream.nats import NatsBroker

from pep import Enforcer
from pep.integrations.faststream import Guard

broker = NatsBroker(sys.argv[1])
app = FastStream(broker)
running: dict[str, Enforcer] = {}
# Take the sender from what it cannot make up, such as the subject that the server lets only it publish to.
guard = Guard(lambda: running["pep"], subject=lambda message: message.headers.get("user", "nobody"))
guard.obligation("mask")(mask)
done: list[str] = []


@broker.subscriber("documents.read")
@guard("read", "/documents/{id}")
async def read(message: dict[str, Any]) -> Any:
    done.append(message["id"])
    return DOCUMENTS.get(message["id"], {})


@broker.subscriber("documents.served")
async def served(message: str) -> list[str]:
    return done


async def main() -> None:
    async with enforcer() as running["pep"]:
        await app.run()


if __name__ == "__main__":
    asyncio.run(main())
