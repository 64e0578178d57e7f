"""What it costs where services meet the fabric: gateway, batches, decorators, lists, fixtures."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from time import perf_counter, time

import uvloop
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from authfabric.files import empower
from authz import Identity
from benchmarks import frameworks
from benchmarks.bus import OBJECTS
from benchmarks.harness import at_least, main
from benchmarks.measures.sdp_push import bundle
from bus.nats import Connection
from bus.server import NatsServer
from bus.wire import Scope
from pdp.bundle import PolicySet
from pdp.releases import Publisher
from pdp.replica import AnswerAuthority, Replica
from pep import Enforcer
from pep.gateway import GatewaySettings, gateway, serving

PROMISES = {"gateway_rps_ratio": at_least(0.6), "batch_gain": at_least(8), **frameworks.PROMISES}

ROUNDS = 8
REQUESTS = 4_000
"""Requests in one round."""
CONNECTIONS = 8
BATCH = 50
SUBJECT, ACTION = {"type": "user", "id": "alice"}, {"name": "read"}


def run() -> dict[str, float]:
    """Evaluations a second answered from the cache, and decisions a second in batches."""
    return uvloop.run(measure())


async def measure() -> dict[str, float]:
    """A server process with the gateway and a bare route; this process sends the same bytes to each in turn."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.gateway", "serve",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        port = int(await process.stdout.readline())
        single = {"subject": SUBJECT, "action": ACTION, "resource": _resource(0)}
        many = {**single, "evaluations": [{"resource": _resource(number)} for number in range(BATCH)]}
        rates: dict[str, list[float]] = {"bare": [], "single": [], "batch": []}
        works: dict[str, Callable[[], Awaitable[float]]] = {
            "bare": lambda: load(port, "/bare", single, REQUESTS, b'{"decision":true}'),
            "single": lambda: load(port, "/access/v1/evaluation", single, REQUESTS, b'{"decision":true}'),
            "batch": lambda: load(port, "/access/v1/evaluations", many, REQUESTS // BATCH * 4, b"true}]}"),
        }
        for _ in range(ROUNDS):
            for name, work in works.items():
                rates[name].append(await work())
    finally:
        process.stdin.close()
        await process.wait()
    best = {name: max(each) for name, each in rates.items()}
    return {
        "gateway_rps_ratio": best["single"] / best["bare"],
        "batch_gain": best["batch"] * BATCH / best["single"],
        "gateway_per_s": best["single"],
        "bare_per_s": best["bare"],
        **await frameworks.measure(),
    }


async def load(port: int, path: str, body: object, count: int, ending: bytes) -> float:
    """Requests a second over keep-alive connections; every answer must end as expected."""
    encoded = json.dumps(body, separators=(",", ":")).encode()
    headers = [
        f"POST {path} HTTP/1.1",
        "Host: x",
        "Content-Type: application/json",
        f"Content-Length: {len(encoded)}",
    ]
    request = "\r\n".join([*headers, "", ""]).encode() + encoded

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(count // CONNECTIONS):
            writer.write(request)
            answer = await reader.readuntil(b"\r\n\r\n")
            length = int(answer.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            assert (await reader.readexactly(length)).endswith(ending)
        writer.close()

    start = perf_counter()
    await asyncio.gather(*[one() for _ in range(CONNECTIONS)])
    return count // CONNECTIONS * CONNECTIONS / (perf_counter() - start)


def _resource(number: int) -> dict[str, str]:
    _, kind, name = OBJECTS[number % len(OBJECTS)].split("/", 2)
    return {"type": kind, "id": name}


async def serve() -> None:
    """A gateway in front of one replica, beside a route that parses the request and returns the same answer."""
    identity, holder = Identity.generate(), Identity.generate()
    authority = AnswerAuthority(holder, [empower(holder, identity)], time())
    async with NatsServer(jetstream=True) as server, Connection(server.url) as bus:
        await Publisher(bus, "default", identity, {identity.public}, time).push(bundle(0))
        async with Enforcer.connect(server.url, deadline=10.0, trust=[identity.public]) as pep:
            assert pep.secondary is not None
            await pep.secondary.feed.ready.wait()
            engine = PolicySet.read(bundle(0)).engine(pep.secondary.point.epoch, certify=True)
            async with Replica(bus, engine, [Scope.parse("domain:default")], authority=authority):
                await serve_both(pep)


async def serve_both(pep: Enforcer) -> None:
    """Serve both until the input ends; say the port first."""

    async def bare(request: Request) -> Response:
        asked = await request.json()
        return JSONResponse({"decision": bool(asked["subject"]["id"])})

    app = Starlette(routes=[Route("/bare", bare, methods=["POST"])])
    app.mount("/", gateway(pep, GatewaySettings(anonymous=True)))
    async with serving(app, "127.0.0.1", 0) as port:
        print(port, flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        uvloop.run(serve())
    else:
        main(run)
