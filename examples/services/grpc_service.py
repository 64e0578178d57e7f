"""gRPC, on asyncio or with `threads`: `python examples/services/grpc_service.py 50051 threads`.

Messages are JSON here, so that nothing has to be generated; messages of protocol buffers are guarded alike.
"""

import asyncio
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from documents import DOCUMENTS, enforcer, mask, sync_enforcer

from pep.integrations import PUBLIC
from pep.integrations.core import Template
from pep.integrations.grpc import AioGuard, Call, Routed, ThreadGuard

NAME = Template("/documents/{id}")


def route(call: Call) -> Routed:
    """What is asked about a call. What is not named here is denied. Take the user from what was authenticated."""
    user = str(call.metadata.get("user", "nobody"))
    match call.method.rpartition("/")[2]:
        case "Health":
            return PUBLIC
        case "Read":
            return user, NAME.fill(call.message), "read"
        case "Watch":
            return user, "/documents/all", "read"
    return None


def read(message: Any, context: Any) -> Any:
    return DOCUMENTS.get(message["id"], {})


async def read_async(message: Any, context: Any) -> Any:
    return read(message, context)


def health(message: Any, context: Any) -> Any:
    return {"status": "ok"}


async def health_async(message: Any, context: Any) -> Any:
    return {"status": "ok"}


def watch(message: Any, context: Any) -> Any:
    yield from DOCUMENTS.values()


async def watch_async(message: Any, context: Any) -> Any:
    for each in DOCUMENTS.values():
        yield each


def handlers(read: Any, health: Any, watch: Any) -> grpc.GenericRpcHandler:
    codec = {"request_deserializer": json.loads, "response_serializer": lambda it: json.dumps(it).encode()}
    methods = {
        "Read": grpc.unary_unary_rpc_method_handler(read, **codec),
        "Health": grpc.unary_unary_rpc_method_handler(health, **codec),
        "Forgotten": grpc.unary_unary_rpc_method_handler(read, **codec),
        "Watch": grpc.unary_stream_rpc_method_handler(watch, **codec),
    }
    return grpc.method_handlers_generic_handler("examples.Documents", methods)


async def serve(port: int) -> None:
    async with enforcer() as pep:
        pep.obligation("mask")(mask)
        server = grpc.aio.server(interceptors=[AioGuard(pep, route)])
        server.add_generic_rpc_handlers([handlers(read_async, health_async, watch_async)])
        server.add_insecure_port(f"127.0.0.1:{port}")
        await server.start()
        await server.wait_for_termination()


def serve_threads(port: int) -> None:
    with sync_enforcer() as pep:
        pep.obligation("mask")(mask)
        server = grpc.server(ThreadPoolExecutor(4), interceptors=[ThreadGuard(pep, route)])
        server.add_generic_rpc_handlers([handlers(read, health, watch)])
        server.add_insecure_port(f"127.0.0.1:{port}")
        server.start()
        server.wait_for_termination()


if __name__ == "__main__":
    if sys.argv[2:] == ["threads"]:
        serve_threads(int(sys.argv[1]))
    else:
        asyncio.run(serve(int(sys.argv[1])))
